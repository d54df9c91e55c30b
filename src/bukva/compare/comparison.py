"""Compare experiments with a baseline, which gives each a verdict such as "better", and rank all experiments.

Scores on different texts cannot be compared, so experiments that were scored on another text have no verdict.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bukva.compare import records
from bukva.compare.groups import Setting, check_has, groups, seed_name, tokenizer_of, why_incomparable
from bukva.compare.results import Result, not_cached, read_results, results_of
from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import MIN_SEEDS, SettingsVerdict, compare_settings, correct, expected_luck
from bukva.compare.statistics.text import Authors, Units, by_author
from bukva.core.errors import BukvaError
from bukva.project.baseline import SCORED, SPLIT
from bukva.project.lock import all_sources, sources
from bukva.project.revisions import Revision, experiments, head, resolve, unfinished
from bukva.project.stages import trained_models
from bukva.text.tokenizers import TOKENIZERS

# value of split.strategy -> description of the held-out text
REACH = {
    "tail": "the ends of works whose beginnings are in train",
    "contiguous": "the last works of the corpus, in the order of their names",
    "by_work": "other works of the {author}s in train",
    "by_author": "works of other {author}s than those in train",
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of setting B with setting A on one split."""

    a: Setting
    b: Setting
    split: str
    verdict: SettingsVerdict
    changed: Mapping[str, tuple[Any, Any]]  # see `changed_params`
    code: Sequence[str]  # see `changed_code`
    authors: Authors | None  # None if there are fewer than two authors, or if A and B have equal scores
    remarks: Sequence[str]  # sentences for the user that help to read the verdict

    @property
    def same_settings(self) -> bool:
        """Whether the trainings of A and B differ at most in the seed."""
        return self.a.key == self.b.key


def compare(names: Sequence[str], model: str, split: str, seeds: Collection[int] = ()) -> list[Comparison]:
    """Compare each experiment in `names` with the first one, corrected for the number of comparisons.

    An experiment stands for all trainings that differ from it only in the seed, or for those with one of `seeds`. But
    if all experiments differ only in the seed, each is compared alone. BukvaError: a name is unknown or has no complete
    result, a model, split or seed does not exist, or the scores cannot be compared.
    """
    results = results_of(names)
    for result in results:
        check_has(result, model, split)
        if why := why_incomparable(results[0], result, split):
            raise BukvaError(why)
    known = groups([*results, *read_results([*experiments(), Revision("HEAD", head())])], model)
    own = [next(each for each in known if result in each.results) for result in results]
    are_seeds, settings = len({setting.key for setting in own}) == 1, []
    for result, setting in zip(results, own, strict=True):
        name, members = result.revision.name, setting.members
        if are_seeds:
            members = [member for member in members if result in member.results]
        elif seeds:
            members = [member for member in members if member.seed in seeds]
        if not members:
            raise BukvaError(
                f"{name} was not trained with seed {' or '.join(map(str, seeds))}. It was trained with these seeds: "
                f"{', '.join(map(str, setting.seeds))}."
            )
        settings.append(replace(setting, name=name, members=members))
    floors = records.floors(known, split)
    return compare_all([(settings[0], other) for other in settings[1:]], split, floors)


def compare_all(pairs: Sequence[tuple[Setting, Setting]], split: str, floors: Mapping[str, Floor]) -> list[Comparison]:
    """Compare B with A for each pair (A, B), corrected for the number of pairs."""
    compared = [compare_two(a, b, split, floors) for a, b in pairs]
    verdicts = correct([comparison.verdict for comparison in compared])
    return [replace(comparison, verdict=verdict) for comparison, verdict in zip(compared, verdicts, strict=True)]


def compare_two(a: Setting, b: Setting, split: str, floors: Mapping[str, Floor]) -> Comparison:
    """Compare B with A, whose scores must be comparable.

    `floors` are by recipe family. The larger one of A and B is used if A or B has fewer than three seeds.
    """
    units = Units.of(a.result.characters.chars[split])
    same_numerics = len({member.numerics for setting in (a, b) for member in setting.members}) == 1
    pairable = same_numerics and a.parameters == b.parameters
    known = (floor for floor in (floors[a.family], floors[b.family]) if floor.known)
    floor = max(known, key=lambda each: each.sd, default=None)
    verdict = compare_settings(a.seed_sums(units, split), b.seed_sums(units, split), units, floor, pairable)
    return Comparison(
        a=a,
        b=b,
        split=split,
        verdict=verdict,
        changed=changed_params(a.result, b.result, a.model),
        code=changed_code(a.result, b.result, a.model),
        authors=_authors(a, b, split),
        remarks=_remarks(a, b, split, verdict, same_numerics=same_numerics),
    )


def changed_params(a: Result, b: Result, model: str) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that differ between two results, by dotted name, as (value in A, value in B).

    A missing parameter has the value None. The seed of the compared model is left out.
    """
    params_a, params_b = a.flat_params, b.flat_params
    keys = [key for key in dict.fromkeys([*params_a, *params_b]) if key != seed_name(model)]
    return {key: (params_a.get(key), params_b.get(key)) for key in keys if params_a.get(key) != params_b.get(key)}


def changed_code(a: Result, b: Result, model: str) -> list[str]:
    """Return the inputs that differ between A and B: of the training, of all stages before it, and of evaluate."""
    stage = trained_models()[model].stage
    code_a, code_b = (all_sources(stage, result.lock) | sources(SCORED, result.lock) for result in (a, b))
    return sorted(path for path in code_a.keys() | code_b.keys() if code_a.get(path) != code_b.get(path))


def _authors(a: Setting, b: Setting, split: str) -> Authors | None:
    scores = a.result.characters
    names = [work.author for work in scores.works]
    if len(set(names)) < 2:
        return None
    works = Units.works(scores.chars[split])
    sums_a, sums_b = a.mean_sums(works, split), b.mean_sums(works, split)
    return by_author(sums_a, sums_b, works, names) if np.any(sums_a != sums_b) else None


def _remarks(a: Setting, b: Setting, split: str, verdict: SettingsVerdict, *, same_numerics: bool) -> list[str]:
    remarks = []
    if tokenizer_of(a.result) != tokenizer_of(b.result):
        windows = [
            f"{each.result.about['window']['length']} {TOKENIZERS[tokenizer_of(each.result)[0]].unit}s"
            for each in (a, b)
        ]
        remarks.append(
            "The tokenizers differ. A and B are still scored on the same characters, because the bits of a token are "
            f"divided equally among its characters. The windows are {windows[0]} in A and {windows[1]} in B."
        )
    if not same_numerics:
        remarks.append(
            "Seeds are not paired, because the trainings ran with different package versions, processors, threads or "
            "precision."
        )
    elif a.parameters != b.parameters:
        remarks.append(
            "Seeds are not paired, because the models have different shapes: the same seed gives different initial "
            "weights."
        )
    elif verdict.method == "paired" and len(a.seeds) != len(b.seeds):
        seeds = ", ".join(map(str, verdict.seeds_a))
        remarks.append(f"Seeds are paired, so both verdicts use only the seeds that A and B have in common: {seeds}.")
    strategy = str(a.result.flat_params.get("split.strategy"))
    if strategy in REACH:
        text = REACH[strategy].format(author=a.result.author_word)
        remarks.append(f"The {split} text is {text} (split.strategy={strategy}). The verdicts hold only for such text.")
    return remarks


# ---- the leaderboard


@dataclass(frozen=True, eq=False)
class Winner:
    """The best of several settings. It looks better than it is, because it was chosen by its score."""

    best: Setting
    n_settings: int  # from which the best one was chosen, without the baseline
    # gain in bits per character that the best of `n_settings` equally good settings would have on average by chance;
    # None if the noise floor is unknown
    luck: float | None
    unused_seeds: Sequence[int]  # that only the best has; usually, they were added after it had been chosen
    on_unused_seeds: Comparison | None  # with the baseline; None if there are fewer than three unused seeds


@dataclass(frozen=True, eq=False)
class Row:
    """A setting on the leaderboard."""

    setting: Setting
    changed: Mapping[str, Any]  # values of the parameters that differ from the baseline, by dotted name
    comparison: Comparison | None  # with the baseline on val; None for the baseline, and if they cannot be compared
    refusal: str  # why a setting that was scored on the text of the baseline cannot be compared, or ""


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """All settings, and what can be said about the best one."""

    baseline: Setting
    texts: Sequence[Sequence[Row]]  # the rows of each val text, the best first; the text of the baseline comes first
    winner: Winner | None  # None if fewer than two settings were compared, or if none is better than the baseline
    floor: Floor  # from which the noise floor on val is computed
    without_result: Sequence[tuple[str, str]]  # name and reason of each experiment that has no complete result


def leaderboard(baseline: str, model: str) -> Leaderboard:
    """Rank all experiments, including `baseline`, by the score of `model` on val.

    BukvaError: the baseline is unknown, has no complete result, or has no model with this name.
    """
    results = read_results(dict.fromkeys([resolve(baseline), *experiments()]))
    if not results[0].is_complete:
        raise BukvaError(f"{baseline}: {_problem(results[0])}, so there is no baseline. Run `make repro`.")
    check_has(results[0], model, SPLIT)
    settings = groups(results, model)
    first = settings[0]  # the baseline
    floors = records.floors(settings, SPLIT)
    refusals = {
        setting.key: why_incomparable(first.result, setting.result, SPLIT)
        for setting in settings
        if _text(setting) == _text(first)
    }
    pairs = [(first, setting) for setting in settings[1:] if refusals.get(setting.key) == ""]
    compared = {comparison.b.key: comparison for comparison in compare_all(pairs, SPLIT, floors)}
    texts: dict[str, list[Row]] = {_text(setting): [] for setting in settings}
    for setting in sorted(settings, key=lambda each: each.mean(SPLIT)):
        changed = {key: value for key, (_, value) in changed_params(first.result, setting.result, model).items()}
        row = Row(setting, changed, compared.get(setting.key), refusals.get(setting.key, ""))
        texts[_text(setting)].append(row)
    return Leaderboard(
        baseline=first,
        texts=list(texts.values()),
        winner=_winner(first, [comparison.b for comparison in compared.values()], floors),
        floor=floors[first.family],
        without_result=[
            *((result.revision.name, _problem(result)) for result in results if not result.is_complete),
            *((state.name, state.why) for state in unfinished()),
        ],
    )


def _winner(baseline: Setting, compared: Sequence[Setting], floors: Mapping[str, Floor]) -> Winner | None:
    best = min(compared, key=lambda each: each.mean(SPLIT), default=baseline)
    if len(compared) < 2 or best.mean(SPLIT) >= baseline.mean(SPLIT):
        return None
    others = {seed for setting in compared if setting is not best for seed in setting.seeds}
    unused = [member for member in best.members if member.seed not in others]
    n_used = max(1, len(best.members) - len(unused))  # number of seeds that the choice is based on
    is_tested, floor = len(unused) >= MIN_SEEDS, floors[baseline.family]
    return Winner(
        best=best,
        n_settings=len(compared),
        luck=expected_luck(len(compared), floor.sd / n_used**0.5) if floor.known else None,
        unused_seeds=[member.seed for member in unused],
        on_unused_seeds=compare_two(baseline, replace(best, members=unused), SPLIT, floors) if is_tested else None,
    )


def _text(setting: Setting) -> str:
    return str(setting.result.about["text"][SPLIT])


def _problem(result: Result) -> str:
    return result.problem or f"its scores are {not_cached('run `dvc pull` or repeat the experiment')}"
