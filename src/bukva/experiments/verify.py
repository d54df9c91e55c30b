"""Can a result be made again from the checkout as it stands, to the same bytes? If not, what has changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from bukva.base.errors import BukvaError
from bukva.experiments.lock import Entries
from bukva.experiments.present import differences, present
from bukva.experiments.results import Result, read_results
from bukva.experiments.revisions import resolve
from bukva.pipeline.stages import recorded_stages

MODEL = "gpt"


@dataclass(frozen=True)
class Verification:
    """What keeps the checkout from making a result again.

    changes: code, data and stages, in a phrase each.
    arithmetic: versions and arithmetic of this machine that are not those of the training, in a phrase each.
    """

    result: Result
    changes: list[str]
    arithmetic: list[str]

    @property
    def is_reproducible(self) -> bool:
        """Whether nothing does."""
        return not self.changes and not self.arithmetic


def verify(name: str, numerics: Mapping[str, str]) -> Verification:
    """Compare what made a result with the checkout, and with the numerics of this machine (training/device.py).

    The parameters are those of the result: whoever makes it again gives them to DVC.

    Raises:
        BukvaError: the name is unknown, or has no result.
    """
    [result] = read_results(resolve([name]))
    if not result.lock:
        raise BukvaError(f"{name}: has no result: it has no dvc.lock.")
    changes = list(dict.fromkeys(_changes(result.lock, present(result.params))))
    return Verification(result, changes, list(_arithmetic(result, numerics)) if result.scores else [])


def _changes(lock: Entries, expected: Entries) -> list[str]:
    stages = [name for name in expected if name in recorded_stages()]
    return [change for stage in stages for change in differences(stage, lock, expected)]


def _arithmetic(result: Result, here: Mapping[str, str]) -> list[str]:
    there = result.about["models"][MODEL]["numerics"]
    keys = dict.fromkeys([*there, *here])
    return [f"{key} {there.get(key)} there, {here.get(key)} here" for key in keys if there.get(key) != here.get(key)]
