"""The leaderboard: all experiments, folded to settings, sorted by val, each with its verdict against the baseline.

Test scores are no part of it: whoever sorts by test chooses by test, and the score of what was chosen is then too good.
Val has the same effect, so the best of m settings is marked with the gain that luck alone gives until it is run again
with seeds that no other setting of the sweep has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bukva.compare import records
from bukva.compare.comparison import Comparison, Setting, changed_params, compare_two
from bukva.compare.cost import cost_of
from bukva.compare.groups import SeedGroup, check_comparable, check_has, check_model, groups
from bukva.compare.results import Result, read_results
from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import MIN_SEEDS, correct, expected_luck
from bukva.core.errors import BukvaError
from bukva.project.revisions import experiments, resolve, unfinished

SPLIT = "val"


@dataclass(frozen=True, eq=False)
class Row:
    """One setting.

    changed: dotted parameter -> its value here, where it is not that of the baseline.
    comparison: with the baseline on val, corrected for all rows; None for the baseline and where `refusal` says why.
    """

    setting: Setting
    changed: dict[str, Any]
    comparison: Comparison | None
    refusal: str = ""

    @property
    def names(self) -> list[str]:
        """Of its experiments, by seed."""
        return [member.names[0] for member in self.setting.members]


@dataclass(frozen=True, eq=False)
class Winner:
    """What the best of several settings is worth.

    best: its row.
    n_settings: from which it was chosen.
    luck: the gain on val in bits that the best of as many equal settings shows; None while the noise floor is unknown.
    unused_seeds: its seeds that no other setting of the sweep has: they had no part in the choice.
    on_unused_seeds: the comparison with the baseline by these alone; None while there are fewer than three.
    """

    best: Row
    n_settings: int
    luck: float | None
    unused_seeds: Sequence[int]
    on_unused_seeds: Comparison | None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Rows from the best on val to the worst; and what has no result, by name, with the reason."""

    model: str
    baseline: Setting
    rows: Sequence[Row]
    choice: Winner | None
    floor: Floor
    groups: Sequence[SeedGroup]
    without_result: Sequence[tuple[str, str]]


def leaderboard(baseline: str, model: str) -> Leaderboard:
    """All experiments beside the baseline.

    Raises:
        BukvaError: the baseline is unknown or has no complete result.
    """
    check_model(model)
    base = resolve([baseline])[0]
    results = read_results(dict.fromkeys([base, *experiments()]))
    reference = results[0]
    if not reference.is_complete:
        raise BukvaError(
            f"{baseline}: {_problem(reference)}, so there is no baseline; run `dvc repro` and commit dvc.lock."
        )
    check_has(reference, model, SPLIT)
    found = groups(results, model)
    floor = records.floor(found[0].family, SPLIT, found)
    first, *others = map(_setting, found)
    rows = _compared(first, others, floor)
    everything = sorted([Row(first, {}, None), *rows], key=lambda row: _mean(row.setting))
    return Leaderboard(model, first, everything, _choice(first, rows, floor), floor, found, _without_result(results))


def _compared(baseline: Setting, others: Sequence[Setting], floor: Floor) -> list[Row]:
    """The rows of all settings but the baseline, with their verdicts corrected together."""
    rows = [_row(baseline, setting, floor) for setting in others]
    corrected = iter(correct([row.comparison.verdict for row in rows if row.comparison]))
    return [
        replace(row, comparison=replace(row.comparison, verdict=next(corrected))) if row.comparison else row
        for row in rows
    ]


def _row(baseline: Setting, setting: Setting, floor: Floor) -> Row:
    differing = changed_params(baseline.result, setting.result, setting.model)
    changed = {key: value for key, (_, value) in differing.items()}
    try:
        check_comparable(baseline.result, setting.result, SPLIT)
    except BukvaError as error:
        return Row(setting, changed, None, str(error))
    return Row(setting, changed, compare_two(baseline, setting, SPLIT, floor))


def _choice(baseline: Setting, rows: Sequence[Row], floor: Floor) -> Winner | None:
    """The best of the settings that were compared; None if there are fewer than two, or none beats the baseline."""
    compared = [row for row in rows if row.comparison]
    if len(compared) < 2:
        return None
    best = min(compared, key=lambda row: _mean(row.setting))
    if _mean(best.setting) >= _mean(baseline):
        return None
    others = {seed for row in compared if row is not best for seed in row.setting.seeds}
    unused_seeds = [member for member in best.setting.members if member.seed not in others]
    on_unused_seeds = None
    if len(unused_seeds) >= MIN_SEEDS:
        again = replace(best.setting, members=tuple(unused_seeds))
        on_unused_seeds = compare_two(baseline, again, SPLIT, floor)
    chosen_by = max(1, len(best.setting.members) - len(unused_seeds))  # seeds
    luck = expected_luck(len(compared), floor.sd / chosen_by**0.5) if floor.known else None
    return Winner(best, len(compared), luck, [member.seed for member in unused_seeds], on_unused_seeds)


def _setting(group: SeedGroup) -> Setting:
    return Setting(group.members[0].names[0], group.model, group.members, cost_of(group.members, group.model))


def _mean(setting: Setting) -> float:
    scores = setting.scores(SPLIT)
    return sum(scores) / len(scores)


def _without_result(results: Sequence[Result]) -> list[tuple[str, str]]:
    incomplete = [(result.revision.name, _problem(result)) for result in results if not result.is_complete]
    others = [(state.name, f"{state.kind}: {state.reason}" if state.reason else state.kind) for state in unfinished()]
    return incomplete + others


def _problem(result: Result) -> str:
    return result.problem or "its scores are not in DVC's cache (dvc pull, or run it again)"
