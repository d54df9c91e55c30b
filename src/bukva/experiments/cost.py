"""What a training costs: parameters, characters that it saw, seconds on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bukva.base.dotted import flatten
from bukva.experiments.groups import Member
from bukva.pipeline.stages import stages, trained_models
from bukva.tracking.reading import Journal, read_journals


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
    found = [seconds for member in members if (seconds := _seconds(member, model, journals)) is not None]
    return Cost(
        parameters=int(first.about["models"][model]["parameters"]),
        chars_seen=first.trainings[model].chars_seen,
        seconds=median(found) if found else None,
    )


def _seconds(member: Member, model: str, journals: Sequence[Journal]) -> float | None:
    """How long the training stage ran, by the newest journal of a run with these parameters."""
    for journal in reversed(journals):
        if _is_of(journal, member, model) and (seconds := _logged(journal)) is not None:
            return seconds
    return None


def _journals(stage: str) -> list[Journal]:
    return [journal for journal in read_journals() if journal.start["stage"] == stage and not journal.start["restored"]]


def _is_of(journal: Journal, member: Member, model: str) -> bool:
    sections = ("download", "clean", "tokenize", "split", *stages()[trained_models()[model].stage].sections)
    ours, theirs = flatten(member.result.params), journal.start["params"]
    return all(theirs.get(key) == value for key, value in ours.items() if key.partition(".")[0] in sections)


def _logged(journal: Journal) -> float | None:
    values: list[Any] = [
        record["values"].get("seconds") for record in journal.read()[0] if record["record"] == "metrics"
    ]
    return next((float(value) for value in reversed(values) if value is not None), None)
