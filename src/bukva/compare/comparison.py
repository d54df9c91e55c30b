"""Is experiment B better than A? What git, DVC's cache and the statistics say of two or more settings."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bukva.compare import records
from bukva.compare.cost import Cost, cost_of
from bukva.compare.groups import (
    Member,
    SeedGroup,
    check_comparable,
    check_has,
    check_model,
    groups,
    seed_name,
    tokenizer_of,
    unit_of,
)
from bukva.compare.results import STAGE, Result, read_results, results_of
from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import SettingsVerdict, Side, compare_settings, correct
from bukva.compare.statistics.text import Authors, Units, by_author
from bukva.core.errors import BukvaError
from bukva.project.lock import sources, upstream
from bukva.project.revisions import Revision, experiments, head
from bukva.project.stages import trained_models

# what the text is that a strategy keeps from train
REACH = {
    "tail": "the ends of works whose beginnings are in train",
    "contiguous": "the last works of the corpus, in the order of their names",
    "by_work": "other works of the {author}s in train",
    "by_author": "works of other {author}s than those in train",
}


@dataclass(frozen=True, eq=False)
class Setting:
    """One side of a comparison: all trainings of a seed group, or one of them.

    name: what the user called it.
    members: in the order of their seeds.
    """

    name: str
    model: str
    members: tuple[Member, ...]
    cost: Cost

    @property
    def result(self) -> Result:
        """One of its results; they differ in the seed only."""
        return self.members[0].result

    @property
    def seeds(self) -> list[int]:
        """Of its trainings."""
        return [member.seed for member in self.members]

    def scores(self, split: str) -> list[float]:
        """(k,) bits per character."""
        return [member.result.metrics[self.model][split] for member in self.members]

    def side(self, units: Units, split: str) -> Side:
        """Its trainings as the statistics take them."""
        return Side.of([(member.seed, _sums(member, self.model, split, units)) for member in self.members])


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


def compare(names: Sequence[str], model: str, split: str, seeds: Collection[int] = ()) -> list[Comparison]:
    """Compare every experiment after the first with the first, corrected together (Holm).

    An experiment stands for its seed group, unless all of these are of one group: then each stands for itself.

    seeds: of the groups, only these; none for all. A setting that was chosen by its score on a seed looks better on
        that seed than it is.

    Raises:
        BukvaError: a name is unknown or has no complete result, there is no such model or split, or the scores cannot
            be compared; names what differs.
    """
    check_model(model)
    results = results_of(names)
    for result in results:
        check_has(result, model, split)
        check_comparable(results[0], result, split)
    found = groups([*results, *read_results([*experiments(), Revision("HEAD", head())])], model)
    chosen = [_member(result, found) for result in results]
    one_group = len({group.key for group, _ in chosen}) == 1
    settings = [
        Setting(name, model, members, cost_of(members, model))
        for name, (group, member) in zip(names, chosen, strict=True)
        for members in [(member,) if one_group else _of_seeds(group.members, seeds, name)]
    ]
    floor = records.floor(found[0].family, split, found)
    compared = [compare_two(settings[0], other, split, floor) for other in settings[1:]]
    verdicts = correct([comparison.verdict for comparison in compared])
    return [replace(comparison, verdict=verdict) for comparison, verdict in zip(compared, verdicts, strict=True)]


def _of_seeds(members: tuple[Member, ...], seeds: Collection[int], name: str) -> tuple[Member, ...]:
    chosen = tuple(member for member in members if not seeds or member.seed in seeds)
    if not chosen:
        known = ", ".join(str(member.seed) for member in members)
        raise BukvaError(f"{name}: has no training with seed {', '.join(map(str, seeds))}; it has {known}.")
    return chosen


def compare_two(a: Setting, b: Setting, split: str, floor: Floor) -> Comparison:
    """Settings B against settings A, whose scores can be compared."""
    units = Units.of(a.result.characters.chars[split])
    numerics = {member.numerics for setting in (a, b) for member in setting.members}
    same_shape = _parameters(a) == _parameters(b)
    verdict = compare_settings(
        a.side(units, split), b.side(units, split), units, floor, pairable=len(numerics) == 1 and same_shape
    )
    changed = changed_params(a.result, b.result, a.model)
    code = _changed_code(a.result, b.result, a.model)
    remarks = [*_about_tokenizers(a.result, b.result), *_about_seeds(a, b, verdict, numerics), *_reach(a.result, split)]
    return Comparison(a, b, split, verdict, changed, code, _authors(a, b, split), remarks)


def _member(result: Result, found: Sequence[SeedGroup]) -> tuple[SeedGroup, Member]:
    """The group of a result, and the training in it that the result stands for."""
    for group in found:
        for member in group.members:
            if result.revision.name in member.names:
                return group, member
    raise LookupError(result.revision.name)


def _sums(member: Member, model: str, split: str, units: Units) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return units.sums(member.result.characters.nats(model, split))


def _parameters(setting: Setting) -> int:
    return int(setting.result.about["models"][setting.model]["parameters"])


def changed_params(a: Result, b: Result, model: str) -> dict[str, tuple[Any, Any]]:
    """Dotted parameter -> its values in A and B, where they differ; the seed of the model is left out."""
    ours, theirs = a.flat_params, b.flat_params
    keys = [key for key in dict.fromkeys([*ours, *theirs]) if key != seed_name(model)]
    return {key: (ours.get(key), theirs.get(key)) for key in keys if ours.get(key) != theirs.get(key)}


def _changed_code(a: Result, b: Result, model: str) -> list[str]:
    def digests(result: Result) -> dict[str, str]:
        stages = [*upstream(trained_models()[model].stage, result.lock), STAGE]
        return {path: md5 for stage in stages for path, md5 in sources(stage, result.lock).items()}

    ours, theirs = digests(a), digests(b)
    return sorted(path for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path))


def _authors(a: Setting, b: Setting, split: str) -> Authors | None:
    scores = a.result.characters
    names = [work.author for work in scores.works]
    if len(set(names)) < 2:
        return None
    works = Units.works(scores.chars[split])
    sums = [np.mean([_sums(member, a.model, split, works) for member in side.members], axis=0) for side in (a, b)]
    return by_author(sums[0], sums[1], works, names) if (sums[0] != sums[1]).any() else None


def _about_tokenizers(a: Result, b: Result) -> list[str]:
    if tokenizer_of(a) == tokenizer_of(b):
        return []
    windows = [f"{result.about['window']['length']} {unit_of(result)}s" for result in (a, b)]
    return [
        "The tokenizers differ. Both scores are over the same characters, of which those of one id have equal parts of "
        f"its bits; the windows are of {windows[0]} in A and {windows[1]} in B."
    ]


def _about_seeds(a: Setting, b: Setting, verdict: SettingsVerdict, numerics: set[str]) -> list[str]:
    if verdict.method == "paired" and min(len(a.seeds), len(b.seeds)) < max(len(a.seeds), len(b.seeds)):
        seeds = ", ".join(map(str, verdict.seeds_a))
        return [f"Seeds are paired, so both lines are about those that both sides have: {seeds}."]
    if len(numerics) > 1:
        return ["Trained with different arithmetic (versions, processor, threads or precision): seeds are not paired."]
    if _parameters(a) != _parameters(b):
        return [
            "The models have different shapes, so a seed gives them different initial weights: seeds are not paired."
        ]
    return []


def _reach(result: Result, split: str) -> list[str]:
    """What text the verdict is about, by the way the text was divided."""
    strategy = result.flat_params.get("split.strategy")
    if strategy not in REACH:
        return []
    text = REACH[strategy].format(author=result.author_word)
    return [f"The {split} text is {text} (split.strategy {strategy}); the verdicts reach no further."]
