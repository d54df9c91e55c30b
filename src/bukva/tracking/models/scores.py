"""The scores of models in a journal of stage evaluate."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bukva.core.files import read_json
from bukva.project.stages import trained_models
from bukva.tracking.reading import Journal
from bukva.tracking.records import Record

STAGE, METRICS = "evaluate", "metrics.json"
BITS = "bits_per_char"


@dataclass(frozen=True)
class Evaluation:
    """metrics.json of stage evaluate, and when it was written, in milliseconds since 1970."""

    content: Mapping[str, Any]
    at: int


@dataclass(frozen=True)
class Scored:
    """The scores of a model: bits per character by split, the name and DVC's digest of each split, and when."""

    bits: Mapping[str, float]
    datasets: Mapping[str, tuple[str, str]]
    at: int


def evaluation(journal: Journal, records: Iterable[Record]) -> Evaluation | None:
    """The evaluation, if its file is an artifact among the records."""
    for record in records:
        if (journal.start["stage"], record["record"], record.get("path")) == (STAGE, "artifact", METRICS):
            return Evaluation(read_json(journal.folder / "artifacts" / METRICS), record["at"])
    return None


def model_scores(journal: Journal, found: Evaluation | None) -> Iterator[tuple[str, Scored]]:
    """The scores of each trained model."""
    datasets = {each["split"]: (each["name"], each["digest"]) for each in journal.start.get("datasets", ())}
    for name in trained_models():
        if found and name in found.content:
            bits = {split: value for split, value in found.content[name].items() if isinstance(value, float)}
            yield name, Scored(bits, datasets, found.at)
