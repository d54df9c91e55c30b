"""Settings: groups of results whose trainings of a model differ only in the seed.

Results belong to the same setting if these are equal:

- the parameters of the training stage and of all stages before it,
- the digests of the sources of these stages: code, pinned packages, the user's text,
- the parts of about.json that affect scores.

So the seed of the bigram does not split a setting of the GPT, but an edited comment in the code of a model does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from bukva.compare.results import Result
from bukva.compare.statistics.settings import SeedSums
from bukva.compare.statistics.text import Units
from bukva.core.errors import BukvaError
from bukva.project.commands import rerun_command
from bukva.project.lock import StageRecords, digest, sources, upstream
from bukva.project.stages import stages, trained_models
from bukva.tracking.journal import read_journals

COMPARABLE = "window", "alphabet", "text"  # parts of about.json that must be equal
# error message and remedy if the part of about.json differs
REMEDIES = {
    "window": ("they were scored with different windows", "Use the same model.block_size"),
    "alphabet": ("they have different alphabets", "Use the same vocabulary"),
}
TEXT_SECTIONS = "download", "clean", "split"  # sections of params.yaml that decide which text is scored


@dataclass(frozen=True)
class Member:
    """One training of a setting.

    names: names of all revisions that contain this training.
    differing: name -> changed parameters, for revisions that differ from the first in a parameter of another stage,
        such as sample.seed.
    """

    result: Result
    seed: int
    numerics: str
    names: tuple[str, ...]
    differing: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Setting:
    """Trainings of one configuration, sorted by seed.

    A seed with different numerics counts as another seed.

    name: name that the user gave, otherwise the name of the first experiment.
    row: row of scores to compare: the name of the model, or its adaptive scores (bukva.evaluation.adaptive).
    key: digest of the configuration, equal for all its results.
    family: digest of text, model and optimizer. Settings of one family share a noise floor.
    """

    name: str
    model: str
    row: str
    key: str
    family: str
    members: tuple[Member, ...]

    @property
    def result(self) -> Result:
        """Result of the first training. The others differ only in the seed."""
        return self.members[0].result

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trainings."""
        return [member.seed for member in self.members]

    @property
    def names(self) -> list[str]:
        """For each training, the name of the first experiment that contains it."""
        return [member.names[0] for member in self.members]

    @property
    def other_names(self) -> list[str]:
        """Names of all other experiments with this setting, except the first of `names`."""
        names = dict.fromkeys(name for member in self.members for name in member.names)
        return [name for name in names if name != self.names[0]]

    @property
    def parameters(self) -> int:
        """Number of parameters of the model."""
        return int(self.result.about["models"][self.model]["parameters"])

    @property
    def chars_seen(self) -> int:
        """Number of characters that one training processes."""
        return self.result.curves[self.model][-1][1]

    @cached_property
    def seconds(self) -> float | None:
        """Median duration of a training; None if no journal of this project contains one."""
        durations = [stage_seconds(member.result, self.model) for member in self.members]
        known = [seconds for seconds in durations if seconds is not None]
        return median(known) if known else None

    def scores(self, split: str) -> list[float]:
        """Return the (k,) bits per character of the trainings."""
        return [member.result.metrics[self.row][split] for member in self.members]

    def seed_sums(self, units: Units, split: str) -> SeedSums:
        """Return the losses of the trainings, summed over each unit of a split."""
        return SeedSums.of(
            [(each.seed, units.sums(each.result.characters.nats(self.row, split))) for each in self.members]
        )


def groups(results: Iterable[Result], model: str, row: str = "") -> list[Setting]:
    """Group complete results that have a row of scores by setting, in the order of their first results.

    row: see Setting; the scores of the model by default.
    """
    row, by_key = row or model, dict[str, list[Result]]()
    for result in results:
        if result.is_complete and f"{row}/val.npy" in result.scores:
            by_key.setdefault(_key(result, model), []).append(result)
    return [_setting(key, members, model, row) for key, members in by_key.items()]


def _setting(key: str, results: list[Result], model: str, row: str) -> Setting:
    by_training: dict[tuple[int, str], list[Result]] = {}
    for result in results:
        numerics = digest(result.about["models"][model]["numerics"])
        by_training.setdefault((seed_of(result.lock, model), numerics), []).append(result)
    members = tuple(
        Member(same[0], seed, numerics, tuple(dict.fromkeys(result.revision.name for result in same)), _differing(same))
        for (seed, numerics), same in sorted(by_training.items(), key=lambda item: item[0])
    )
    family = digest([results[0].about["text"], row, results[0].params[f"train_{model}"]["optimizer"]])
    return Setting(members[0].names[0], model, row, key, family, members)


def _differing(results: list[Result]) -> dict[str, str]:
    """Return the parameters in which results with the same training differ from the first of them, by name."""
    first = results[0].flat_params
    changed = {
        result.revision.name: [f"{key}={value}" for key, value in result.flat_params.items() if first.get(key) != value]
        for result in results
    }
    return {name: ", ".join(items) for name, items in changed.items() if items}


def _key(result: Result, model: str) -> str:
    """Return the key of the setting of a result, 16 digits."""
    stage, lock, training = trained_models()[model].stage, result.lock, {}
    for name in upstream(stage, lock):
        params = {key: value for key, value in lock[name].params.items() if (name, key) != (stage, seed_name(model))}
        training[name] = [params, sources(name, lock)]
    return digest([digest(training), *(result.about[part] for part in COMPARABLE)])


def seed_name(model: str) -> str:
    """Return the dotted name of the parameter with the seed of a model's training."""
    return f"train_{model}.seed"


def seed_of(lock: StageRecords, model: str) -> int:
    """Return the seed of a model's training."""
    return int(lock[trained_models()[model].stage].params[seed_name(model)])


# ---- what can be compared


def check_has(result: Result, model: str, row: str, split: str) -> None:
    """Check that a result has a row of scores of a model on a split.

    Raises:
        BukvaError: the result lacks the model, the split or the row.
    """
    name, texts = result.revision.name, result.about["text"]
    models = [known for known in result.about["models"] if known in trained_models()]  # an older result may have others
    if model not in models:
        raise BukvaError(f"{name} has no model {model}. Use {' or '.join(models)}.")
    if split not in texts:
        raise BukvaError(f"{name} has no scores on {split}, only on {' and '.join(texts)}.")
    if row != model and f"{row}/{split}.npy" not in result.scores:
        wanted = {**result.params, "evaluate": {**result.params["evaluate"], "adaptive": True}}
        raise BukvaError(
            f"Adaptive scores can only be compared with adaptive scores, and {name} has none. To compute them: "
            f"`{rerun_command(name, wanted)}`."
        )


def why_incomparable(a: Result, b: Result, split: str) -> str:
    """Return the reason why the scores of two results cannot be compared; "" if they can.

    With different tokenizers, only the texts must be equal: a window is counted in ids, and the byte and bpe tokenizers
    have no alphabet.
    """
    names = f"{b.revision.name} and {a.revision.name}"
    if a.about["text"][split] != b.about["text"][split]:
        return (
            f"{names} were scored on different {split} texts{_settings_of_texts(a, b)}, so their bits cannot be "
            "compared. Compare experiments with the same text, cleaning rules and split."
        )
    for part, (reason, remedy) in REMEDIES.items():
        if tokenizer_of(a) == tokenizer_of(b) and a.about[part] != b.about[part]:
            return f"{names} cannot be compared, because {reason}. {remedy}."
    return ""


def _settings_of_texts(a: Result, b: Result) -> str:
    """Return the parameters that led to two different texts, in brackets; "" if only the files have changed."""
    keys = [key for key in b.flat_params if key.partition(".")[0] in TEXT_SECTIONS]
    differing = [key for key in keys if b.flat_params[key] != a.flat_params.get(key)]
    named = ", ".join(f"{key}: {b.flat_params[key]} and {a.flat_params.get(key)}" for key in differing)
    return f" ({named})" if named else ""


def tokenizer_of(result: Result) -> tuple[str, int | None]:
    """Return the kind of the tokenizer and, for bpe, the requested size of its vocabulary."""
    params = result.params["tokenize"]
    return params["kind"], params["vocab_size"] if params["kind"] == "bpe" else None


def stage_seconds(result: Result, model: str) -> float | None:
    """Return the duration of the newest training with the parameters of a result; None if no journal contains one.

    Interrupted executions that the training was resumed from are included.
    """
    stage = trained_models()[model].stage
    sections = ("download", "clean", "tokenize", "split", *stages()[stage].sections)
    wanted = {key: value for key, value in result.flat_params.items() if key.partition(".")[0] in sections}
    seconds = None
    for journal in reversed(read_journals()):
        start = journal.start
        if start["stage"] == stage and not start["restored"] and wanted.items() <= start["params"].items():
            status, ended_at = journal.status()
            if status == "FINISHED" and seconds is not None:
                break  # this execution finished an earlier training
            if ended_at is not None and (status == "FINISHED" or seconds is not None):
                seconds = (seconds or 0) + (ended_at - start["at"]) / 1000
    return seconds
