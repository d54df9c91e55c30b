"""Build the leaderboard: compare all experiments with a baseline, and sort them by their scores on val.

Experiments that differ only in the seed form one setting, which has one row. Scores on different texts cannot be
compared. So settings that were scored on another val text than the baseline are listed in separate tables, one for each
text, without verdicts.

A setting that was chosen by its score looks better than it is. So the leaderboard does not use the test split. For the
best setting, the leaderboard also shows how much the best of so many settings would gain by luck alone. If the best
setting has three or more seeds that no other setting has, it is also compared with the baseline on these seeds only.
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
    """One setting of the leaderboard, that is, all experiments that differ only in the seed.

    changed: parameters that differ from the baseline, by dotted name. The values are those of this setting.
    comparison: comparison with the baseline on val. The p-value is corrected for the number of compared settings. None
        for the baseline itself, and for settings that cannot be compared with the baseline.
    refusal: message that says why the setting cannot be compared with the baseline; "" if it can be compared, or if it
        was scored on another text.
    """

    setting: Setting
    changed: dict[str, Any]
    comparison: Comparison | None
    refusal: str


@dataclass(frozen=True, eq=False)
class Winner:
    """The best of several settings, and how much of its gain may be due to luck.

    n_settings: number of settings from which the best one was chosen, without the baseline.
    luck: gain on val, in bits per character, that the best of `n_settings` equally good settings would have on average
        by chance; None if the noise floor is unknown.
    unused_seeds: seeds that only the best setting has. Usually, they were added after this setting had been chosen.
    on_unused_seeds: comparison with the baseline for which only the trainings of the best setting with `unused_seeds`
        are used; None if there are fewer than three of these seeds.
    """

    best: Setting
    n_settings: int
    luck: float | None
    unused_seeds: Sequence[int]
    on_unused_seeds: Comparison | None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """All settings, grouped by the val text on which they were scored, and sorted from the best to the worst.

    A setting is a group of experiments that differ only in the seed.

    rows: settings that were scored on the val text of the baseline, including the baseline.
    others: the other settings, one list of rows for each other val text. Their `comparison` is None and their `refusal`
        is "".
    winner: the best setting; None if fewer than two settings were compared with the baseline, or if none of them has a
        better score than the baseline.
    floor: standard deviation between the val scores of different seeds, from which the noise floor is computed.
    without_result: (name, reason) for each experiment that has no complete result.
    """

    baseline: Setting
    rows: Sequence[Row]
    others: Sequence[Sequence[Row]]
    winner: Winner | None
    floor: Floor
    without_result: Sequence[tuple[str, str]]

    @property
    def texts(self) -> list[Sequence[Row]]:
        """One list of rows for each val text. The list for the text of the baseline comes first."""
        return [self.rows, *self.others]


def leaderboard(baseline: str, model: str) -> Leaderboard:
    """Rank all experiments, including `baseline`, by the score of one of their models on val.

    `model` is the name of this model. Experiments that differ only in the seed are ranked together, by their mean
    score.

    Raises:
        BukvaError: the baseline is unknown, has no complete result, or has no model with this name.
    """
    results = read_results(dict.fromkeys([resolve(baseline), *experiments()]))
    if not results[0].is_complete:
        raise BukvaError(f"{baseline}: {_problem(results[0])}, so there is no baseline. Run `make repro`.")
    check_has(results[0], model, SPLIT)
    settings = groups(results, model)
    first = settings[0]  # the baseline
    floor = records.floor(first.family, SPLIT, settings)
    same_text, *other_texts = _by_text(settings)
    rows = _compared(same_text, floor)
    return Leaderboard(
        baseline=first,
        rows=_ranked(rows),
        others=[_ranked([Row(each, _changed(first, each), None, "") for each in text]) for text in other_texts],
        winner=_winner(first, rows, floor),
        floor=floor,
        without_result=[
            *((result.revision.name, _problem(result)) for result in results if not result.is_complete),
            *((state.name, state.why) for state in unfinished()),
        ],
    )


def _by_text(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Group settings by the val text on which they were scored. The group of the first setting comes first."""
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
    """Compare each setting with the first one, the baseline, and return one row for each setting."""
    baseline = settings[0]
    refusals = {setting.key: why_incomparable(baseline.result, setting.result, SPLIT) for setting in settings}
    pairs = [(baseline, setting) for setting in settings[1:] if not refusals[setting.key]]
    compared = {comparison.b.key: comparison for comparison in compare_all(pairs, SPLIT, floor)}
    return [
        Row(setting, _changed(baseline, setting), compared.get(setting.key), refusals[setting.key])
        for setting in settings
    ]


def _winner(baseline: Setting, rows: Sequence[Row], floor: Floor) -> Winner | None:
    """Return the best of the settings that were compared, or None in the cases that `Leaderboard` describes."""
    compared = [row.setting for row in rows if row.comparison]
    if len(compared) < 2:
        return None
    best = min(compared, key=_mean)
    if _mean(best) >= _mean(baseline):
        return None
    others = {seed for setting in compared if setting is not best for seed in setting.seeds}
    unused = tuple(member for member in best.members if member.seed not in others)
    n_used = max(1, len(best.members) - len(unused))  # number of seeds that the choice is based on
    return Winner(
        best=best,
        n_settings=len(compared),
        luck=expected_luck(len(compared), floor.sd / n_used**0.5) if floor.known else None,
        unused_seeds=[member.seed for member in unused],
        on_unused_seeds=compare_two(baseline, replace(best, members=unused), SPLIT, floor)
        if len(unused) >= MIN_SEEDS
        else None,
    )


def _mean(setting: Setting) -> float:
    return fmean(setting.scores(SPLIT))


def _problem(result: Result) -> str:
    return result.problem or "its scores are not in DVC's cache (run `dvc pull` or repeat the experiment)"
