"""Group experiment results into settings. The results of one setting differ only in the seed of the compared model.

Equal are the parameters of the training and of all stages before it, except its seed; the digests of the code, pinned
packages and texts that these stages read; and `COMPARABLE`. So an edited comment in the code of the model makes another
setting, and another seed of the bigram makes none of the GPT.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from bukva.compare.results import Result
from bukva.compare.statistics.settings import SeedSums
from bukva.compare.statistics.text import Floats, Units
from bukva.core.errors import BukvaError
from bukva.project.lock import StageRecords, digest, sources, upstream
from bukva.project.revisions import Revision
from bukva.project.stages import trained_models
from bukva.tracking.record import seconds_of_models

COMPARABLE = "window", "alphabet", "text"  # parts of about.json that must be equal within a setting
# part of about.json -> (reason, remedy): the two parts of the error message if this part differs
REMEDIES = {
    "window": ("they were scored with different windows", "Use the same model.block_size"),
    "alphabet": ("they have different alphabets", "Use the same training text and tokenize.vocabulary"),
}
TEXT_SECTIONS = "download", "clean", "split"  # sections of params.yaml that decide which text is scored


@dataclass(frozen=True)
class Member:
    """One training of a model. Several results share it if they differ only in parameters of later stages."""

    results: Sequence[Result]
    seed: int
    numerics: str  # digest of the package versions, processor, precision and threads
    seconds: float | None  # duration; None if this project has not recorded it

    @property
    def result(self) -> Result:
        """First result that uses the training."""
        return self.results[0]

    @cached_property
    def names(self) -> list[str]:
        return list(dict.fromkeys(result.revision.name for result in self.results))

    @property
    def differing(self) -> dict[str, str]:
        """Parameters that differ from those of `result`, as "key=value, ...", by the name of the other result."""
        first, differing = self.result.flat_params, {}
        for other in self.results[1:]:
            if items := [f"{key}={value}" for key, value in other.flat_params.items() if first.get(key) != value]:
                differing[other.revision.name] = ", ".join(items)
        return differing


@dataclass(frozen=True, eq=False)
class Setting:
    """All trainings of a model with the same parameters and code, sorted by seed.

    Trainings with the same seed are two members if their numerics differ.
    """

    name: str  # that the user gave; by default, the first name of the first member
    model: str
    key: str  # digest of everything that is equal in all trainings of the setting
    family: str  # digest of held-out text, model and optimizer; one noise floor holds for a family
    members: Sequence[Member]

    @property
    def result(self) -> Result:
        """Result of the first training. Use it only for properties that do not depend on the seed."""
        return self.members[0].result

    @property
    def revision(self) -> Revision:
        """Revision that the user named, or by default the revision of the first training."""
        return next((each.revision for each in self.results if each.revision.name == self.name), self.result.revision)

    @property
    def results(self) -> list[Result]:
        return [result for member in self.members for result in member.results]

    @property
    def seeds(self) -> list[int]:
        return [member.seed for member in self.members]

    @property
    def names(self) -> list[str]:
        """For each training, the name of the first experiment that uses it."""
        return [member.names[0] for member in self.members]

    @property
    def all_names(self) -> list[str]:
        """Names of all experiments that use one of the trainings."""
        return list(dict.fromkeys(result.revision.name for result in self.results))

    @property
    def parameters(self) -> int:
        return int(self.result.about["models"][self.model]["parameters"])

    @property
    def chars_seen(self) -> int:
        """Number of characters that the first training has processed, in all its steps together."""
        return int(self.result.curves[self.model][-1]["chars_seen"])

    @property
    def seconds(self) -> float | None:
        """Median duration of the trainings in seconds; None if this project has recorded no duration."""
        known = [member.seconds for member in self.members if member.seconds is not None]
        return median(known) if known else None

    def scores(self, split: str) -> list[float]:
        """Return the bits per character of each training. The list is empty if the text has no such split."""
        scored = [member.result.metrics[self.model] for member in self.members]
        return [scores[split] for scores in scored if split in scores]

    def mean(self, split: str) -> float:
        return fmean(self.scores(split))

    def seed_sums(self, units: Units, split: str) -> SeedSums:
        """Return the total loss of each training on each unit of a split."""
        return SeedSums.of(
            [(each.seed, units.sums(each.result.characters.nats(self.model, split))) for each in self.members]
        )

    def mean_sums(self, units: Units, split: str) -> Floats:
        """Return the (G,) mean losses of the trainings on the units of a split, in bits."""
        return self.seed_sums(units, split).sums.mean(axis=0)


def groups(results: Iterable[Result], model: str) -> list[Setting]:
    """Group the complete results with scores of `model` that differ only in its seed, in the order of first results."""
    by_key: dict[str, dict[tuple[int, str], list[Result]]] = {}
    for result in results:
        if result.is_complete and f"{model}/val.npy" in result.scores:
            training = seed_of(result.lock, model), digest(result.about["models"][model]["numerics"])
            by_key.setdefault(_key(result, model), {}).setdefault(training, []).append(result)
    durations, settings = seconds_of_models(model), []
    for key, trainings in by_key.items():
        members = [
            Member(shared, *training, training_seconds(shared[0], model, durations))
            for training, shared in sorted(trainings.items())
        ]
        first = members[0].result
        optimizer = first.params[f"train_{model}"].get("optimizer", "adamw")  # which the bigram always has
        family = digest([first.about["text"], model, optimizer])
        settings.append(Setting(members[0].names[0], model, key, family, members))
    return settings


def _key(result: Result, model: str) -> str:
    stage, lock, training = trained_models()[model].stage, result.lock, {}
    for name in upstream(stage, lock):
        params = {key: value for key, value in lock[name].params.items() if (name, key) != (stage, seed_name(model))}
        training[name] = [params, sources(name, lock)]
    return digest([digest(training), *(result.about[part] for part in COMPARABLE)])


def seed_name(model: str) -> str:
    """Return the dotted name of the seed with which a model is trained, such as "train_gpt.seed"."""
    return f"train_{model}.seed"


def seed_of(lock: StageRecords, model: str) -> int:
    return int(lock[trained_models()[model].stage].params[seed_name(model)])


def training_seconds(result: Result, model: str, known: Mapping[str, float]) -> float | None:
    """Return the seconds of the training that made the model of a result (`known`: see seconds_of_models), or None."""
    about = trained_models()[model]
    return known.get(result.lock[about.stage].outs.get(about.folder.as_posix(), ""))


# ---- check whether results can be compared


def check_has(result: Result, model: str, split: str) -> None:
    """Raise a BukvaError if a result has no scores of `model` on `split`."""
    name, texts, models = result.revision.name, result.about["text"], result.about["models"]
    if model not in models:
        raise BukvaError(f"{name} has no model {model}. Use {' or '.join(models)}.")
    if split not in texts:
        raise BukvaError(f"{name} has no scores on {split}, only on {' and '.join(texts)}.")


def why_incomparable(a: Result, b: Result, split: str) -> str:
    """Return why the scores of two results cannot be compared, or "" if they can.

    Windows and alphabets of different tokenizers may differ, because a window is counted in ids.
    """
    names = f"{b.revision.name} and {a.revision.name}"
    if a.about["text"][split] != b.about["text"][split]:
        theirs = a.flat_params
        differing = [
            f"{key}: {value} and {theirs.get(key)}"
            for key, value in b.flat_params.items()
            if key.partition(".")[0] in TEXT_SECTIONS and value != theirs.get(key)
        ]
        named = f" ({', '.join(differing)})" if differing else ""
        return (
            f"{names} were scored on different {split} texts{named}, so their scores cannot be compared. Compare "
            "experiments with the same text, cleaning rules and split."
        )
    for part, (reason, remedy) in REMEDIES.items():
        if tokenizer_of(a) == tokenizer_of(b) and a.about[part] != b.about[part]:
            return f"{names} cannot be compared, because {reason}. {remedy}."
    return ""


def tokenizer_of(result: Result) -> tuple[str, int | None]:
    """Return the kind of the tokenizer, and for the kind bpe the requested size of the vocabulary (otherwise None)."""
    params = result.params["tokenize"]
    return params["kind"], params["vocab_size"] if params["kind"] == "bpe" else None
