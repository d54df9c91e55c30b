"""Settings: results that differ in nothing but the seed of a model's training, and whose scores can be compared.

Equal must be the parameters of its stage and of all stages that it needs, the digests of their sources (code, pins of
packages, the user's text), and what of about.json changes scores. So the seed of the bigram does not matter to a group
of the GPT, and an edit of a comment in a model makes a new one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from bukva.compare.results import Result
from bukva.compare.statistics.settings import Side
from bukva.compare.statistics.text import Units
from bukva.core.errors import BukvaError
from bukva.project.commands import rerun
from bukva.project.lock import StageRecords, digest, sources, upstream
from bukva.project.stages import stages, trained_models
from bukva.tracking.journal import read_journals

COMPARABLE = "window", "alphabet", "text"  # parts of about.json that must be equal
# what an error calls the first two, and what to do
REMEDIES = {
    "window": ("window rule", "use the same model.block_size"),
    "alphabet": ("alphabet", "use the same vocabulary"),
}
TEXT_SECTIONS = "download", "clean", "split"  # of params.yaml: they decide which text is scored


@dataclass(frozen=True)
class Member:
    """One training; `names` are those of all revisions with this very training.

    differing: those of them that differ in a parameter of another stage, such as sample.seed, and how.
    """

    result: Result
    seed: int
    numerics: str
    names: tuple[str, ...]
    differing: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Setting:
    """The trainings of one configuration, by seed; the same seed with other numerics counts as another seed.

    name: what the user called it, else that of its first experiment.
    row: whose scores are compared: those of the model, or those that adapt (bukva.evaluation.adaptive).
    key: the same for all results of the group.
    family: the same for all groups of a text, a model and an optimizer, which share a noise floor.
    """

    name: str
    model: str
    row: str
    key: str
    family: str
    members: tuple[Member, ...]

    @property
    def result(self) -> Result:
        """One of its results; they differ in the seed only."""
        return self.members[0].result

    @property
    def seeds(self) -> list[int]:
        """Of its trainings."""
        return [member.seed for member in self.members]

    @property
    def names(self) -> list[str]:
        """Of the first experiment with each of its trainings."""
        return [member.names[0] for member in self.members]

    @property
    def other_names(self) -> list[str]:
        """All further names of its trainings: of other seeds, and of the same training in other experiments."""
        names = dict.fromkeys(name for member in self.members for name in member.names)
        return [name for name in names if name != self.names[0]]

    @property
    def parameters(self) -> int:
        """Of the model."""
        return int(self.result.about["models"][self.model]["parameters"])

    @property
    def chars_seen(self) -> int:
        """In one training."""
        return self.result.curves[self.model][-1][1]

    @cached_property
    def seconds(self) -> float | None:
        """Of one training, the median; None if no journal of this project has it."""
        found = [stage_seconds(member.result, self.model) for member in self.members]
        known = [seconds for seconds in found if seconds is not None]
        return median(known) if known else None

    def scores(self, split: str) -> list[float]:
        """(k,) bits per character."""
        return [member.result.metrics[self.row][split] for member in self.members]

    def side(self, units: Units, split: str) -> Side:
        """Its trainings as the statistics take them."""
        return Side.of([(each.seed, units.sums(each.result.characters.nats(self.row, split))) for each in self.members])


def groups(results: Iterable[Result], model: str, row: str = "") -> list[Setting]:
    """The settings of the complete results that have this row of scores, in the order of their first results.

    row: as of Setting; the model by default.
    """
    row, found = row or model, dict[str, list[Result]]()
    for result in results:
        if result.is_complete and f"{row}/val.npy" in result.scores:
            found.setdefault(_key(result, model), []).append(result)
    return [_setting(key, members, model, row) for key, members in found.items()]


def _setting(key: str, results: list[Result], model: str, row: str) -> Setting:
    same: dict[tuple[int, str], list[Result]] = {}
    for result in results:
        numerics = digest(result.about["models"][model]["numerics"])
        same.setdefault((seed_of(result.lock, model), numerics), []).append(result)
    members = tuple(
        Member(
            found[0], seed, numerics, tuple(dict.fromkeys(result.revision.name for result in found)), _differing(found)
        )
        for (seed, numerics), found in sorted(same.items(), key=lambda item: item[0])
    )
    family = digest([results[0].about["text"], row, results[0].params[f"train_{model}"]["optimizer"]])
    return Setting(members[0].names[0], model, row, key, family, members)


def _differing(results: list[Result]) -> dict[str, str]:
    """Return how the parameters of results with one training differ from those of the first, by name."""
    first = results[0].flat_params
    changed = {
        result.revision.name: [f"{key}={value}" for key, value in result.flat_params.items() if first.get(key) != value]
        for result in results
    }
    return {name: ", ".join(items) for name, items in changed.items() if items}


def _key(result: Result, model: str) -> str:
    """16 digits."""
    stage, lock, training = trained_models()[model].stage, result.lock, {}
    for name in upstream(stage, lock):
        params = {key: value for key, value in lock[name].params.items() if (name, key) != (stage, seed_name(model))}
        training[name] = [params, sources(name, lock)]
    return digest([digest(training), *(result.about[part] for part in COMPARABLE)])


def seed_name(model: str) -> str:
    """The dotted name of the seed of a model's training."""
    return f"train_{model}.seed"


def seed_of(lock: StageRecords, model: str) -> int:
    """The seed of a model's training."""
    return int(lock[trained_models()[model].stage].params[seed_name(model)])


# ---- what can be compared


def check_has(result: Result, model: str, row: str, split: str) -> None:
    """Raise where an experiment has no scores of this model on this split, or none that adapt where these are asked."""
    name, texts = result.revision.name, result.about["text"]
    models = [known for known in result.about["models"] if known in trained_models()]  # an older result may have others
    if model not in models:
        raise BukvaError(f"{name}: has no model {model}; use {' or '.join(models)}.")
    if split not in texts:
        raise BukvaError(f"{name}: has no scores on {split}, only on {' and '.join(texts)}.")
    if row != model and f"{row}/{split}.npy" not in result.scores:
        wanted = {**result.params, "evaluate": {**result.params["evaluate"], "adaptive": True}}
        raise BukvaError(
            f"{name}: has no adaptive scores, and they are compared with adaptive ones only; "
            f"run `{rerun(name, wanted)}`."
        )


def why_incomparable(a: Result, b: Result, split: str) -> str:
    """Return a sentence that says why two scores measure different things; "" where they measure the same.

    Where the tokenizers differ, only the texts are compared: a window is counted in ids, and byte and bpe have no
    alphabet.
    """
    names = f"{b.revision.name} and {a.revision.name}"
    if a.about["text"][split] != b.about["text"][split]:
        return (
            f"{names} were scored on different {split} texts{_settings_of_texts(a, b)}, so their bits cannot be "
            "compared. Compare experiments with the same text, cleaning rules and split."
        )
    for part, (named, remedy) in REMEDIES.items():
        if tokenizer_of(a) == tokenizer_of(b) and a.about[part] != b.about[part]:
            return f"{names} cannot be compared: the {named} is not the same; {remedy}."
    return ""


def _settings_of_texts(a: Result, b: Result) -> str:
    """Name the parameters that made two different texts, in brackets; "" where the files themselves have changed."""
    keys = [key for key in b.flat_params if key.partition(".")[0] in TEXT_SECTIONS]
    differing = [key for key in keys if b.flat_params[key] != a.flat_params.get(key)]
    named = ", ".join(f"{key}: {b.flat_params[key]} and {a.flat_params.get(key)}" for key in differing)
    return f" ({named})" if named else ""


def tokenizer_of(result: Result) -> tuple[str, int | None]:
    """Its kind, and the size that was asked for where it can be chosen."""
    params = result.params["tokenize"]
    return params["kind"], params["vocab_size"] if params["kind"] == "bpe" else None


def stage_seconds(result: Result, model: str) -> float | None:
    """Return how long the newest training with the parameters of this result took on this machine.

    That includes the executions before it that were interrupted. None if no journal of this project has it.
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
                break  # an earlier training
            if ended_at is not None and (status == "FINISHED" or seconds is not None):
                seconds = (seconds or 0) + (ended_at - start["at"]) / 1000
    return seconds
