"""Is experiment B better than A? What git, DVC's cache and the statistics say of two or more settings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bukva.compare import records
from bukva.compare.groups import (
    Member,
    Setting,
    check_has,
    groups,
    seed_name,
    tokenizer_of,
    why_incomparable,
)
from bukva.compare.results import STAGE, Result, read_results, results_of
from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import SettingsVerdict, compare_settings, correct
from bukva.compare.statistics.text import Authors, Units, by_author
from bukva.core.errors import BukvaError
from bukva.evaluation.rows import WITHIN
from bukva.project.lock import all_sources, sources
from bukva.project.revisions import Revision, experiments, head
from bukva.project.stages import trained_models
from bukva.text.tokenizers import TOKENIZERS

# what the text is that a strategy keeps from train
REACH = {
    "tail": "the ends of works whose beginnings are in train",
    "contiguous": "the last works of the corpus, in the order of their names",
    "by_work": "other works of the {author}s in train",
    "by_author": "works of other {author}s than those in train",
}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Settings B against settings A.

    changed: dotted parameter -> its values in A and B, None where one has no such parameter; seeds are left out.
    code: files that both were computed with, in different versions.
    authors: the effect by author; None if no work has one, or nothing differs.
    remarks: sentences about how the two were compared.
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
        """Whether the two differ in nothing but seeds."""
        return not self.changed and not self.code


def compare(
    names: Sequence[str], model: str, split: str, seeds: Collection[int] = (), *, adaptive: bool = False
) -> list[Comparison]:
    """Compare every experiment after the first with the first, corrected together (Holm).

    An experiment stands for its seed group, unless all of these are of one group: then each stands for itself.

    seeds: of the groups, only these; none for all. A setting that was chosen by its score on a seed looks better on
        that seed than it is.
    adaptive: compare the scores of the GPT while it learns on, within each work.

    Raises:
        BukvaError: a name is unknown or has no complete result, there is no such model or split, or the scores cannot
            be compared; names what differs.
    """
    if adaptive and model != "gpt":
        raise BukvaError(f"compare --adaptive: {model} does not learn on; only the GPT does.")
    results, row = results_of(names), WITHIN if adaptive else model
    for result in results:
        check_has(result, model, row, split)
        if why := why_incomparable(results[0], result, split):
            raise BukvaError(why)
    found = groups([*results, *read_results([*experiments(), Revision("HEAD", head())])], model, row)
    chosen = [_member(result, found) for result in results]
    one_group = len({group.key for group, _ in chosen}) == 1
    settings = [
        replace(group, name=name, members=(member,) if one_group else _of_seeds(group.members, seeds, name))
        for name, (group, member) in zip((result.revision.name for result in results), chosen, strict=True)
    ]
    floor = records.floor(found[0].family, split, found)
    return compare_all([(settings[0], other) for other in settings[1:]], split, floor)


def _member(result: Result, found: Sequence[Setting]) -> tuple[Setting, Member]:
    """The group of a result, and the training in it that the result stands for."""
    name = result.revision.name
    return next((group, member) for group in found for member in group.members if name in member.names)


def _of_seeds(members: tuple[Member, ...], seeds: Collection[int], name: str) -> tuple[Member, ...]:
    chosen = tuple(member for member in members if not seeds or member.seed in seeds)
    if not chosen:
        known = ", ".join(str(member.seed) for member in members)
        raise BukvaError(f"{name}: has no training with seed {', '.join(map(str, seeds))}; it has {known}.")
    return chosen


def compare_all(pairs: Sequence[tuple[Setting, Setting]], split: str, floor: Floor) -> list[Comparison]:
    """Each B against its A, whose scores can be compared, corrected together."""
    compared = [compare_two(a, b, split, floor) for a, b in pairs]
    verdicts = correct([comparison.verdict for comparison in compared])
    return [replace(comparison, verdict=verdict) for comparison, verdict in zip(compared, verdicts, strict=True)]


def compare_two(a: Setting, b: Setting, split: str, floor: Floor) -> Comparison:
    """Settings B against settings A, whose scores can be compared."""
    units = Units.of(a.result.characters.chars[split])
    same_numerics = len({member.numerics for setting in (a, b) for member in setting.members}) == 1
    pairable = same_numerics and a.parameters == b.parameters
    verdict = compare_settings(a.side(units, split), b.side(units, split), units, floor, pairable)
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
    """Dotted parameter -> its values in A and B, where they differ; the seed of the model is left out."""
    ours, theirs = a.flat_params, b.flat_params
    keys = [key for key in dict.fromkeys([*ours, *theirs]) if key != seed_name(model)]
    return {key: (ours.get(key), theirs.get(key)) for key in keys if ours.get(key) != theirs.get(key)}


def changed_code(a: Result, b: Result, model: str) -> list[str]:
    """Return the files and folders of code with which both were made, in different versions."""
    stage = trained_models()[model].stage
    ours, theirs = (all_sources(stage, result.lock) | sources(STAGE, result.lock) for result in (a, b))
    return sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))


def _authors(a: Setting, b: Setting, split: str) -> Authors | None:
    scores = a.result.characters
    names = [work.author for work in scores.works]
    if len(set(names)) < 2:
        return None
    works = Units.works(scores.chars[split])
    sums = [side.side(works, split).sums.mean(axis=0) for side in (a, b)]  # (G,) bits
    return by_author(sums[0], sums[1], works, names) if np.any(sums[0] != sums[1]) else None


def _remarks(a: Setting, b: Setting, verdict: SettingsVerdict, *, same_numerics: bool) -> list[str]:
    found = []
    if tokenizer_of(a.result) != tokenizer_of(b.result):
        units = [TOKENIZERS[tokenizer_of(each.result)[0]].unit for each in (a, b)]
        windows = [f"{each.result.about['window']['length']} {unit}s" for each, unit in zip((a, b), units, strict=True)]
        found.append(
            "The tokenizers differ. Both scores are over the same characters, of which those of one id share its bits "
            f"equally; the windows are of {windows[0]} in A and {windows[1]} in B."
        )
    if not same_numerics:
        found.append(
            "Trained with different arithmetic (versions, processor, threads or precision): seeds are not paired."
        )
    elif a.parameters != b.parameters:
        found.append(
            "The models have different shapes, so a seed gives them different initial weights: seeds are not paired."
        )
    elif verdict.method == "paired" and len(a.seeds) != len(b.seeds):
        seeds = ", ".join(map(str, verdict.seeds_a))
        found.append(f"Seeds are paired, so both lines are about those that both sides have: {seeds}.")
    return found


def _reach(result: Result, split: str) -> list[str]:
    """What text the verdict is about, by the way the text was divided."""
    strategy = result.flat_params.get("split.strategy")
    if strategy not in REACH:
        return []
    text = REACH[strategy].format(author=result.author_word)
    return [f"The {split} text is {text} (split.strategy {strategy}); the verdicts reach no further."]
