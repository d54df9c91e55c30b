"""Can a result be made again from the checkout as it stands, to the same bytes? If not, what has changed."""

from collections.abc import Mapping

from bukva.compare.results import read_results
from bukva.core.errors import BukvaError
from bukva.project.cache import digests
from bukva.project.commands import rerun
from bukva.project.lock import all_sources, changes
from bukva.project.revisions import resolve
from bukva.project.stages import recorded_stages

MODEL = "gpt"


def verify(name: str, numerics: Mapping[str, str]) -> tuple[list[str], str]:
    """Compare what made a result with the checkout, and with the numerics of this machine (models/device.py).

    The parameters are those of the result: whoever makes it again gives them to DVC.

    Returns:
        What keeps the checkout from making it again, in a phrase each; and the command that makes it again.

    Raises:
        BukvaError: the name is unknown, or has no result.
    """
    [result] = read_results(resolve([name]))
    stages = [stage for stage in recorded_stages() if stage in result.lock]
    if not stages:
        raise BukvaError(f"{name}: has no result: it has no dvc.lock.")
    now = digests({path for stage in stages for path in all_sources(stage, result.lock)})
    found = [change for stage in stages for change in changes(stage, result.lock, result.flat_params, now)]
    if result.scores:
        there = result.about["models"][MODEL]["numerics"]
        other = [key for key in dict.fromkeys([*there, *numerics]) if there.get(key) != numerics.get(key)]
        found += [f"trained with {key} {there.get(key)}, and here it is {numerics.get(key)}" for key in other]
    else:
        found.append("the arithmetic of its training is unknown, because its scores are not in DVC's cache")
    return list(dict.fromkeys(found)), rerun(name, result.params)
