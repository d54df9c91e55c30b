"""What a training costs: parameters, characters that it saw, seconds on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bukva.compare.results import Result
from bukva.project.stages import stages, trained_models
from bukva.tracking.journal import Journal, read_journals


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


def cost_of(results: Sequence[Result], model: str) -> Cost:
    """The cost of one of these trainings, which differ in the seed only."""
    seconds = [found for result in results if (found := stage_seconds(result, model)) is not None]
    return Cost(
        parameters=int(results[0].about["models"][model]["parameters"]),
        chars_seen=results[0].curves[model][-1][1],
        seconds=median(seconds) if seconds else None,
    )


def stage_seconds(result: Result, model: str) -> float | None:
    """How long the training stage ran; None if no journal of this project has it."""
    for journal in _journals(result, model):
        for record in reversed(journal.read()[0]):
            if record["record"] == "metrics" and "seconds" in record["values"]:
                return float(record["values"]["seconds"])
    return None


def _journals(result: Result, model: str) -> list[Journal]:
    """Of runs of the training stage with the parameters of this result, the newest first."""
    stage = trained_models()[model].stage
    sections = ("download", "clean", "tokenize", "split", *stages()[stage].sections)
    wanted = {key: value for key, value in result.flat_params.items() if key.partition(".")[0] in sections}
    return [
        journal
        for journal in reversed(read_journals())
        if journal.start["stage"] == stage
        and not journal.start["restored"]
        and wanted.items() <= journal.start["params"].items()
    ]
