"""The leaderboard: all experiments, folded to settings, sorted by val, each with its verdict against the baseline.

Scores on different texts do not measure the same, so the settings of each other text are ranked among themselves.

What is chosen by a score looks better than it is. So test is no part of it, and the best of m settings is marked with
the gain that luck alone gives, until it is run again with seeds that no other setting of the sweep has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from bukva.compare import records
from bukva.compare.comparison import Comparison, changed_params, compare_all, compare_two
from bukva.compare.groups import Setting, check_has, groups, why_incomparable
from bukva.compare.results import Result, read_results
from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import MIN_SEEDS, expected_luck
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
    refusal: str


@dataclass(frozen=True, eq=False)
class Winner:
    """What the best of several settings is worth.

    n_settings: from which it was chosen.
    luck: the gain on val in bits that the best of as many equal settings shows; None while the noise floor is unknown.
    unused_seeds: its seeds that no other setting of the sweep has: they had no part in the choice.
    on_unused_seeds: the comparison with the baseline by these alone; None while there are fewer than three.
    """

    best: Setting
    n_settings: int
    luck: float | None
    unused_seeds: Sequence[int]
    on_unused_seeds: Comparison | None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Rows from the best on val to the worst; and what has no result, by name, with the reason.

    rows: settings scored on the val text of the baseline.
    others: for each other val text, the rows of its settings. They have no comparison and no refusal.
    """

    baseline: Setting
    rows: Sequence[Row]
    others: Sequence[Sequence[Row]]
    choice: Winner | None
    floor: Floor
    without_result: Sequence[tuple[str, str]]

    @property
    def texts(self) -> list[Sequence[Row]]:
        """Rows grouped by val text, the baseline's text first."""
        return [self.rows, *self.others]


def leaderboard(baseline: str, model: str) -> Leaderboard:
    """All experiments beside the baseline.

    Raises:
        BukvaError: the baseline is unknown or has no complete result.
    """
    results = read_results(dict.fromkeys([resolve(baseline), *experiments()]))
    if not results[0].is_complete:
        raise BukvaError(f"{baseline}: {_problem(results[0])}, so there is no baseline; run `make repro`.")
    check_has(results[0], model, model, SPLIT)
    found = groups(results, model)
    floor = records.floor(found[0].family, SPLIT, found)
    same, *others = _by_text(found)
    rows = _compared(same, floor)
    return Leaderboard(
        baseline=found[0],
        rows=_ranked(rows),
        others=[_ranked([Row(each, _changed(found[0], each), None, "") for each in other]) for other in others],
        choice=_choice(found[0], rows, floor),
        floor=floor,
        without_result=[
            *((result.revision.name, _problem(result)) for result in results if not result.is_complete),
            *((state.name, state.why) for state in unfinished()),
        ],
    )


def _by_text(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Group settings by the digest of their val text, in the order in which the texts first appear."""
    by_text: dict[str, list[Setting]] = {}
    for setting in settings:
        by_text.setdefault(setting.result.about["text"][SPLIT], []).append(setting)
    return list(by_text.values())


def _ranked(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: _mean(row.setting))


def _changed(baseline: Setting, setting: Setting) -> dict[str, Any]:
    changed = changed_params(baseline.result, setting.result, setting.model)
    return {key: value for key, (_, value) in changed.items()}


def _compared(settings: Sequence[Setting], floor: Floor) -> list[Row]:
    """The rows of all settings; the first is the baseline, and the verdicts of the others are corrected together."""
    baseline = settings[0]
    refusals = {setting.key: why_incomparable(baseline.result, setting.result, SPLIT) for setting in settings}
    pairs = [(baseline, setting) for setting in settings[1:] if not refusals[setting.key]]
    compared = {comparison.b.key: comparison for comparison in compare_all(pairs, SPLIT, floor)}
    return [
        Row(setting, _changed(baseline, setting), compared.get(setting.key), refusals[setting.key])
        for setting in settings
    ]


def _choice(baseline: Setting, rows: Sequence[Row], floor: Floor) -> Winner | None:
    """The best of the settings that were compared; None if there are fewer than two, or none beats the baseline."""
    compared = [row.setting for row in rows if row.comparison]
    if len(compared) < 2:
        return None
    best = min(compared, key=_mean)
    if _mean(best) >= _mean(baseline):
        return None
    others = {seed for setting in compared if setting is not best for seed in setting.seeds}
    unused = tuple(member for member in best.members if member.seed not in others)
    chosen_by = max(1, len(best.members) - len(unused))  # seeds
    return Winner(
        best=best,
        n_settings=len(compared),
        luck=expected_luck(len(compared), floor.sd / chosen_by**0.5) if floor.known else None,
        unused_seeds=[member.seed for member in unused],
        on_unused_seeds=compare_two(baseline, replace(best, members=unused), SPLIT, floor)
        if len(unused) >= MIN_SEEDS
        else None,
    )


def _mean(setting: Setting) -> float:
    return fmean(setting.scores(SPLIT))


def _problem(result: Result) -> str:
    return result.problem or "its scores are not in DVC's cache (dvc pull, or run it again)"
