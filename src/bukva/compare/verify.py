"""Can a result be made again from the checkout as it stands, to the same bytes? If not, what has changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bukva.compare.results import Result, read_results
from bukva.core.errors import BukvaError
from bukva.project.commands import rerun
from bukva.project.lock import StageRecords, differences, present
from bukva.project.revisions import resolve
from bukva.project.stages import recorded_stages

MODEL = "gpt"


@dataclass(frozen=True)
class Verification:
    """What keeps the checkout from making a result again.

    changes: code, data and stages, in a phrase each.
    arithmetic: versions and arithmetic of this machine that are not those of the training, or that these are unknown.
    """

    result: Result
    changes: list[str]
    arithmetic: list[str]

    @property
    def is_reproducible(self) -> bool:
        """Whether nothing does."""
        return not self.changes and not self.arithmetic


def sentences(name: str, found: Verification) -> Iterator[str]:
    """What a user reads, a line each."""
    if found.is_reproducible:
        yield f"{name}: can be made again here, to the same bytes: code, data and arithmetic are those that made it."
        yield f"To make it again: {rerun(name, found.result.params)}"
    if found.changes:
        yield f"{name}: cannot be made again from the checkout as it stands:"
        yield from (f"  {change}" for change in found.changes)
    if found.arithmetic:
        yield f"{name}: training here may give other bytes, by its arithmetic:"
        yield from (f"  {difference}" for difference in found.arithmetic)


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
    return Verification(result, changes, _arithmetic(result, numerics))


def _changes(lock: StageRecords, expected: StageRecords) -> list[str]:
    stages = [name for name in expected if name in recorded_stages()]
    return [change for stage in stages for change in differences(stage, lock, expected)]


def _arithmetic(result: Result, here: Mapping[str, str]) -> list[str]:
    if not result.scores:
        return ["that of its training is unknown, because its scores are not in DVC's cache"]
    there = result.about["models"][MODEL]["numerics"]
    keys = dict.fromkeys([*there, *here])
    return [f"{key} {there.get(key)} there, {here.get(key)} here" for key in keys if there.get(key) != here.get(key)]
