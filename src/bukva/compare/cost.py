"""What a training costs: parameters, characters that it saw, seconds on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bukva.compare.groups import Member
from bukva.compare.results import Result
from bukva.config.load import flatten
from bukva.project.stages import stages, trained_models
from bukva.tracking.journal import Journal, read_journals

SCORED = "val_nats_per_char"  # what a journal has of each step at which val was scored


@dataclass(frozen=True)
class Cost:
    """The cost of one training.

    parameters: of the model.
    chars_seen: in training.
    seconds: of the training stage, the median over the seeds; None if no journal of this project has it.
    """

    parameters: int
    chars_seen: int
    seconds: float | None


def cost_of(members: Sequence[Member], model: str) -> Cost:
    """The cost of one of these trainings, which differ in the seed only."""
    first, journals = members[0].result, _journals(trained_models()[model].stage)
    found = [seconds for member in members if (seconds := _seconds(member.result, model, journals)) is not None]
    return Cost(
        parameters=int(first.about["models"][model]["parameters"]),
        chars_seen=first.trainings[model].chars_seen,
        seconds=median(found) if found else None,
    )


def seconds_by_step(result: Result, model: str) -> dict[int, float]:
    """Scored step -> seconds since the training stage began, by the newest journal of a run with these parameters.

    Nothing if no journal of this project has it, or if the training was resumed.
    """
    for journal in reversed(_journals(trained_models()[model].stage)):
        if _is_of(journal, result, model):
            records = [each for each in journal.read()[0] if each["record"] == "metrics"]
            at = {each["step"]: each["at"] for each in records if SCORED in each["values"]}
            return {step: (when - journal.start["at"]) / 1000 for step, when in at.items()} if 0 in at else {}
    return {}


def stage_seconds(result: Result, model: str) -> float | None:
    """How long the training stage ran; None if no journal of this project has it."""
    return _seconds(result, model, _journals(trained_models()[model].stage))


def _seconds(result: Result, model: str, journals: Sequence[Journal]) -> float | None:
    """How long the training stage ran, by the newest journal of a run with these parameters."""
    for journal in reversed(journals):
        if _is_of(journal, result, model) and (seconds := _logged(journal)) is not None:
            return seconds
    return None


def _journals(stage: str) -> list[Journal]:
    return [journal for journal in read_journals() if journal.start["stage"] == stage and not journal.start["restored"]]


def _is_of(journal: Journal, result: Result, model: str) -> bool:
    sections = ("download", "clean", "tokenize", "split", *stages()[trained_models()[model].stage].sections)
    ours, theirs = flatten(result.params), journal.start["params"]
    return all(theirs.get(key) == value for key, value in ours.items() if key.partition(".")[0] in sections)


def _logged(journal: Journal) -> float | None:
    values: list[Any] = [
        record["values"].get("seconds") for record in journal.read()[0] if record["record"] == "metrics"
    ]
    return next((float(value) for value in reversed(values) if value is not None), None)
