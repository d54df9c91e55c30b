"""Seed groups: results that differ in nothing but the seed of a model's training; and whose scores can be compared.

Two results are of one group if everything that the training of the model is a function of is equal, except its seed,
and if their scores can be compared. What a training is a function of is what DVC records of its stage and of all stages
that it needs: parameters, and the digests of sources, which are code, pins of packages and the user's text. The digests
of what stages make are left out, because they follow from the others, and only sources are known before a run: so the
group of a configuration that nobody has run yet has the same key (bukva.project.lock).

Hence the seeds of the bigram and of samples do not matter to a group of the GPT: its stage needs neither of these
stages. Stage evaluate is no part of the key either. It has no seed, most of its code draws or counts, and what of it
changes scores is stated in about.json: window rule, alphabet and digests of the texts, which are the second half.

The code is compared by its bytes, as DVC does: after an edit of a comment in a model, a configuration has a new group.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.compare.results import Result
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.project.lock import LOCK, StageRecords, digest, parse_lock, sources, upstream
from bukva.project.stages import paths, trained_models
from bukva.text.tokenizers import tokenizer_class

TAG = "bukva.seed_group"
COMPARABLE = "window", "alphabet", "text"  # of about.json


@dataclass(frozen=True)
class Member:
    """One training of a group; `names` are those of all revisions with this very training."""

    result: Result
    seed: int
    numerics: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class SeedGroup:
    """The trainings of one configuration, by seed; the same seed with other numerics counts as another seed."""

    key: str
    family: str
    model: str
    members: tuple[Member, ...]

    def scores(self, split: str) -> list[float]:
        """(k,) bits per character."""
        return [member.result.metrics[self.model][split] for member in self.members]


def check_model(model: str) -> None:
    """Raise where no stage trains a model of this name."""
    if model not in trained_models():
        raise BukvaError(f"There is no model {model}; use {' or '.join(trained_models())}.")


def groups(results: Iterable[Result], model: str) -> list[SeedGroup]:
    """The seed groups of the complete results that have this model, in the order of their first results."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.is_complete and f"{model}/val.npy" in result.scores:
            found.setdefault(group_key(result, model), []).append(result)
    return [
        SeedGroup(key, family(members[0], model), model, _members(members, model)) for key, members in found.items()
    ]


def group_key(result: Result, model: str) -> str:
    """The same for all complete results of one seed group: 16 digits."""
    return _key(result.lock, result.about, model)


def seed_group_tags(model: str) -> dict[str, str]:
    """The tag in MLflow of the experiment that runs in the current folder, which may be a snapshot of DVC's queue.

    Empty where its results are not complete.
    """
    try:
        lock = parse_lock(Path(LOCK).read_text(encoding="utf-8"))
        return {TAG: _key(lock, read_json(Path(paths()["scores"]) / "about.json"), model)}
    except (OSError, ValueError, KeyError):
        return {}


def training_key(stages: StageRecords, model: str) -> str:
    """The digest of all that the training of a model is a function of, except its seed."""
    stage = trained_models()[model].stage
    parts = {}
    for name in upstream(stage, stages):
        params = {key: value for key, value in stages[name].params.items() if (name, key) != (stage, seed_name(model))}
        parts[name] = [params, sources(name, stages)]
    return digest(parts)


def family(result: Result, model: str) -> str:
    """The digest of corpus and recipe family: held-out text, model and optimizer. Its groups share a noise floor."""
    return digest([result.about["text"], model, result.params[_section(model)]["optimizer"]])


def seed_name(model: str) -> str:
    """The dotted name of the seed of a model's training."""
    return f"{_section(model)}.seed"


def seed_of(stages: StageRecords, model: str) -> int:
    """The seed of a model's training."""
    return int(stages[trained_models()[model].stage].params[seed_name(model)])


def _key(stages: StageRecords, about: Mapping[str, Any], model: str) -> str:
    return digest([training_key(stages, model), *(about[part] for part in COMPARABLE)])


def _members(results: list[Result], model: str) -> tuple[Member, ...]:
    found: dict[tuple[int, str], list[Result]] = {}
    for result in results:
        numerics = digest(result.about["models"][model]["numerics"])
        found.setdefault((seed_of(result.lock, model), numerics), []).append(result)
    return tuple(
        Member(same[0], seed, numerics, tuple(dict.fromkeys(result.revision.name for result in same)))
        for (seed, numerics), same in sorted(found.items(), key=lambda item: item[0])
    )


def _section(model: str) -> str:
    return trained_models()[model].stage.replace("-", "_")


# what of about.json must be equal, and how an error names it
NAMED = {"window": "window rule", "alphabet": "alphabet", "text": "text"}


def check_has(result: Result, model: str, split: str) -> None:
    """Raise where an experiment has no scores of this model on this split."""
    known = result.about["models"]
    if model not in known:
        raise BukvaError(f"{result.revision.name}: has no model {model}; use {' or '.join(known)}.")
    if split not in result.about["text"]:
        raise BukvaError(
            f"{result.revision.name}: has no scores on {split}, only on {' and '.join(result.about['text'])}."
        )


def check_comparable(a: Result, b: Result, split: str) -> None:
    """Raise where two scores do not measure the same; the sentence says what differs.

    Both are over the same characters of the same text. Where the tokenizers differ, windows and alphabets cannot be the
    same: a window is counted in ids, and byte and bpe have no alphabet. Then a remark says so.
    """
    for part in COMPARABLE if tokenizer_of(a) == tokenizer_of(b) else ("text",):
        ours, theirs = a.about[part], b.about[part]
        if part == "text":
            ours, theirs = ours[split][:12], theirs[split][:12]
        if ours != theirs:
            unit = unit_of(a)
            raise BukvaError(
                f"{b.revision.name} and {a.revision.name} cannot be compared: the {_named(part, split)} is not the "
                f"same ({_shown(part, theirs, unit)} against {_shown(part, ours, unit)}); {_remedy(part)}."
            )


def tokenizer_of(result: Result) -> tuple[str, int | None]:
    """Its kind, and the size that was asked for where it can be chosen."""
    params = result.params["tokenize"]
    return params["kind"], params["vocab_size"] if params["kind"] == "bpe" else None


def unit_of(result: Result) -> str:
    """What one of its ids stands for, in a word."""
    return tokenizer_class(tokenizer_of(result)[0]).unit


def _named(part: str, split: str) -> str:
    return f"{split} text" if part == "text" else NAMED[part]


def _shown(part: str, value: Any, unit: str) -> str:
    match part:
        case "window":
            return f"windows of {value['length']} {unit}s with stride {value['stride']}, context: {value['context']}"
        case "alphabet":
            return f"{len(value)} characters"
        case _:
            return f"SHA-256 {value}"


def _remedy(part: str) -> str:
    return {
        "window": "use the same model.block_size",
        "alphabet": "use the same vocabulary",
        "text": "use the same corpus, cleaning rules and split",
    }[part]
