"""Compare experiments: read their scores from git and DVC's cache, and compute a verdict such as "better" for each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bukva.compare import records
from bukva.compare.groups import Member, Setting, check_has, groups, seed_name, tokenizer_of, why_incomparable
from bukva.compare.results import STAGE, Result, read_results, results_of
from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import SettingsVerdict, compare_settings, correct
from bukva.compare.statistics.text import Authors, Units, by_author
from bukva.core.errors import BukvaError
from bukva.project.lock import all_sources, sources
from bukva.project.revisions import Revision, experiments, head
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
    """Comparison of setting B with setting A on one split.

    changed: parameters that differ, by dotted name, as (value in A, value in B). A value is None if A or B does not
        have the parameter. The seed of the compared model is left out.
    code: paths of the files and folders of code that differ between A and B.
    authors: difference on the works of each author; None if there are fewer than two authors, or if A and B have equal
        scores.
    remarks: sentences for the user that help to read the verdict.
    """

    a: Setting
    b: Setting
    split: str
    verdict: SettingsVerdict
    changed: Mapping[str, tuple[Any, Any]]
    code: Sequence[str]
    authors: Authors | None
    remarks: Sequence[str]

    @property
    def same_settings(self) -> bool:
        """Whether A and B differ at most in the seed of the compared model."""
        return not self.changed and not self.code


def compare(names: Sequence[str], model: str, split: str, seeds: Collection[int] = ()) -> list[Comparison]:
    """Compare each experiment in `names` with the first one. The p-values are corrected for the number of comparisons.

    Each experiment is represented by its mean score over all trainings that differ from it only in the seed. There is
    one exception: if all experiments in `names` differ only in the seed, each is compared alone, and `seeds` has no
    effect.

    seeds: use only the trainings with these seeds; if empty, use all. Leave out the seeds on which an experiment was
        selected as the best, because on these seeds it looks better than it is.

    Raises:
        BukvaError: a name is unknown or has no complete result; the model, the split or a training with one of `seeds`
            does not exist; or the scores cannot be compared. The message gives the reason.
    """
    results = results_of(names)
    for result in results:
        check_has(result, model, split)
        if why := why_incomparable(results[0], result, split):
            raise BukvaError(why)
    known = groups([*results, *read_results([*experiments(), Revision("HEAD", head())])], model)
    chosen = [_member(result, known) for result in results]
    one_group = len({group.key for group, _ in chosen}) == 1
    settings = [
        replace(group, name=name, members=(member,) if one_group else _with_seeds(group.members, seeds, name))
        for name, (group, member) in zip((result.revision.name for result in results), chosen, strict=True)
    ]
    floor = records.floor(known[0].family, split, known)
    return compare_all([(settings[0], other) for other in settings[1:]], split, floor)


def _member(result: Result, settings: Sequence[Setting]) -> tuple[Setting, Member]:
    """Return the setting that contains a result, and the training (member) of this setting that the result uses."""
    name = result.revision.name
    return next((setting, member) for setting in settings for member in setting.members if name in member.names)


def _with_seeds(members: tuple[Member, ...], seeds: Collection[int], name: str) -> tuple[Member, ...]:
    chosen = tuple(member for member in members if not seeds or member.seed in seeds)
    if not chosen:
        known = ", ".join(str(member.seed) for member in members)
        raise BukvaError(
            f"{name} was not trained with seed {' or '.join(map(str, seeds))}. It was trained with these seeds: "
            f"{known}."
        )
    return chosen


def compare_all(pairs: Sequence[tuple[Setting, Setting]], split: str, floor: Floor) -> list[Comparison]:
    """Compare B with A for each pair (A, B), as `compare_two` does. The p-values are corrected for their number."""
    compared = [compare_two(a, b, split, floor) for a, b in pairs]
    verdicts = correct([comparison.verdict for comparison in compared])
    return [replace(comparison, verdict=verdict) for comparison, verdict in zip(compared, verdicts, strict=True)]


def compare_two(a: Setting, b: Setting, split: str, floor: Floor) -> Comparison:
    """Compare B with A, whose scores must be comparable (see `groups.why_incomparable`).

    If A or B has fewer than three seeds, `floor` is used: the standard deviation between the scores of different seeds.
    """
    units = Units.of(a.result.characters.chars[split])
    same_numerics = len({member.numerics for setting in (a, b) for member in setting.members}) == 1
    pairable = same_numerics and a.parameters == b.parameters
    verdict = compare_settings(a.seed_sums(units, split), b.seed_sums(units, split), units, floor, pairable)
    return Comparison(
        a=a,
        b=b,
        split=split,
        verdict=verdict,
        changed=changed_params(a.result, b.result, a.model),
        code=changed_code(a.result, b.result, a.model),
        authors=_authors(a, b, split),
        remarks=[*_remarks(a, b, verdict, same_numerics=same_numerics), *_reach(a.result, split)],
    )


def changed_params(a: Result, b: Result, model: str) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that differ between two results, as `Comparison.changed`."""
    params_a, params_b = a.flat_params, b.flat_params
    keys = [key for key in dict.fromkeys([*params_a, *params_b]) if key != seed_name(model)]
    return {key: (params_a.get(key), params_b.get(key)) for key in keys if params_a.get(key) != params_b.get(key)}


def changed_code(a: Result, b: Result, model: str) -> list[str]:
    """Return the paths of the files and folders that differ between A and B and that affect the scores of the model.

    These are the inputs of its training, of all stages before that, and of stage evaluate.
    """
    stage = trained_models()[model].stage
    code_a, code_b = (all_sources(stage, result.lock) | sources(STAGE, result.lock) for result in (a, b))
    return sorted(path for path in code_a.keys() | code_b.keys() if code_a.get(path) != code_b.get(path))


def _authors(a: Setting, b: Setting, split: str) -> Authors | None:
    scores = a.result.characters
    names = [work.author for work in scores.works]
    if len(set(names)) < 2:
        return None
    works = Units.works(scores.chars[split])
    sums = [setting.seed_sums(works, split).sums.mean(axis=0) for setting in (a, b)]  # (G,) bits
    return by_author(sums[0], sums[1], works, names) if np.any(sums[0] != sums[1]) else None


def _remarks(a: Setting, b: Setting, verdict: SettingsVerdict, *, same_numerics: bool) -> list[str]:
    remarks = []
    if tokenizer_of(a.result) != tokenizer_of(b.result):
        units = [TOKENIZERS[tokenizer_of(each.result)[0]].unit for each in (a, b)]
        windows = [f"{each.result.about['window']['length']} {unit}s" for each, unit in zip((a, b), units, strict=True)]
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
    return remarks


def _reach(result: Result, split: str) -> list[str]:
    strategy = result.flat_params.get("split.strategy")
    if strategy not in REACH:
        return []
    text = REACH[strategy].format(author=result.author_word)
    return [f"The {split} text is {text} (split.strategy={strategy}). The verdicts hold only for such text."]
