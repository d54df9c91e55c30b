"""Build the leaderboard: one table of all experiments, sorted by their scores on val and compared with a baseline.

Experiments that differ only in the seed form one setting, which has one row. Scores on different texts cannot be
compared, so settings that were scored on another val text than the baseline have no verdict.

A setting that was chosen by its score looks better than it is. So the leaderboard does not use the test split. For the
best setting, it also says how much the best of so many settings would gain by luck alone. If the best setting has three
or more seeds that no other setting has, it is also compared with the baseline on these seeds only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import pandas as pd

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
class Winner:
    """The best of several settings, and how much of its gain may be due to luck.

    n_settings: number of settings from which the best one was chosen, without the baseline.
    luck: gain on val, in bits per character, that the best of `n_settings` equally good settings would have on average
        by chance; None if the noise floor is unknown.
    unused_seeds: seeds that only the best setting has. Usually, they were added after this setting had been chosen.
    on_unused_seeds: comparison with the baseline on `unused_seeds`; None if there are fewer than three.
    """

    best: Setting
    n_settings: int
    luck: float | None
    unused_seeds: Sequence[int]
    on_unused_seeds: Comparison | None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """All settings, and what can be said about the best one.

    table: one row per setting. The settings that were scored on the val text of the baseline come first, and those of
        each text are sorted from the best to the worst. The columns:
        setting, text: the setting, and the digest of its val text.
        experiments, also: the name of the first experiment of each training, and the other names.
        changed: parameters that differ from the baseline, by dotted name, with the values of this setting.
        val: bits per character on val of each training.
        comparison: comparison with the baseline on val, with a p-value that is corrected for the number of compared
            settings; None for the baseline and for settings that cannot be compared.
        refusal: message that says why a setting on the same text cannot be compared, or "".
        seeds, parameters, chars_seen, seconds: the seeds, and the cost of one training (see `Setting`).
    winner: the best setting; None if fewer than two settings were compared with the baseline, or if none of them has a
        better score than the baseline.
    floor: standard deviation between the val scores of different seeds, from which the noise floor is computed.
    without_result: (name, reason) for each experiment that has no complete result.
    """

    baseline: Setting
    table: pd.DataFrame
    winner: Winner | None
    floor: Floor
    without_result: Sequence[tuple[str, str]]

    @property
    def texts(self) -> list[pd.DataFrame]:
        """Return the rows of each val text, beginning with the val text of the baseline."""
        return [rows for _, rows in self.table.groupby("text", sort=False)]


def leaderboard(baseline: str, model: str) -> Leaderboard:
    """Rank all experiments, including `baseline`, by the score of `model` on val.

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
    same_text = [setting for setting in settings if _text(setting) == _text(first)]
    refusals = {setting.key: why_incomparable(first.result, setting.result, SPLIT) for setting in same_text}
    pairs = [(first, setting) for setting in same_text[1:] if not refusals[setting.key]]
    compared = {comparison.b.key: comparison for comparison in compare_all(pairs, SPLIT, floor)}
    order = list(dict.fromkeys(map(_text, settings)))
    ranked = sorted(settings, key=lambda setting: (order.index(_text(setting)), _mean(setting)))
    rows = [_row(each, first, compared.get(each.key), refusals.get(each.key, "")) for each in ranked]
    return Leaderboard(
        baseline=first,
        table=pd.DataFrame(rows, dtype=object),  # not float, which would turn None into NaN
        winner=_winner(first, [comparison.b for comparison in compared.values()], floor),
        floor=floor,
        without_result=[
            *((result.revision.name, _problem(result)) for result in results if not result.is_complete),
            *((state.name, state.why) for state in unfinished()),
        ],
    )


def _row(setting: Setting, baseline: Setting, comparison: Comparison | None, refusal: str) -> dict[str, Any]:
    changed = changed_params(baseline.result, setting.result, setting.model)
    return {
        "setting": setting,
        "text": _text(setting),
        "experiments": setting.names,
        "also": [name for name in setting.other_names if name not in setting.names],
        "changed": {key: value for key, (_, value) in changed.items()},
        SPLIT: setting.scores(SPLIT),
        "comparison": comparison,
        "refusal": refusal,
        "seeds": setting.seeds,
        "parameters": setting.parameters,
        "chars_seen": setting.chars_seen,
        "seconds": setting.seconds,
    }


def _winner(baseline: Setting, compared: Sequence[Setting], floor: Floor) -> Winner | None:
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


def _text(setting: Setting) -> str:
    return str(setting.result.about["text"][SPLIT])


def _mean(setting: Setting) -> float:
    return fmean(setting.scores(SPLIT))


def _problem(result: Result) -> str:
    return result.problem or "its scores are not in DVC's cache (run `dvc pull` or repeat the experiment)"
