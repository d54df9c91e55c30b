"""The records of a journal: one JSON object per line."""

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it costs 0.2 s, and bukva compare reads journals
    from bukva.tracking.experiment import Experiment

Record = dict[str, Any]

FILE = "journal.jsonl"
ADOPTED = "adopted.json"
CODE = "code.zip"  # beside the journal of a training: what runs its model (package.py)


def to_line(record: str, at: int, **content: Any) -> bytes:
    """The line of a record of this kind."""
    return json.dumps({"record": record, "at": at, **content}, ensure_ascii=False).encode() + b"\n"


def parse(line: bytes) -> Record | None:
    """The record of a line; None for a line that a full disk or a power cut left incomplete."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "record" in record else None


def now() -> int:
    """Milliseconds since 1970, which is how MLflow counts."""
    return time.time_ns() // 1_000_000


def experiment_fields(experiment: "Experiment") -> Record:
    """What a start record and adopted.json contain about an experiment."""
    return {
        "experiment": experiment.name,
        "label": experiment.label,
        "key": experiment.key,
        "commit": experiment.commit,
        "params": experiment.params,
    }
