"""What journals say, in MLflow's words: tags, parameters and points."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bukva.base.files import read_json
from bukva.tracking.experiment import flatten
from bukva.tracking.records import Journal, Record

if TYPE_CHECKING:
    from mlflow.entities import Metric, Param, RunTag

SCORES = "metrics.json"  # of stage evaluate; the experiment's own run shows them too

# Left alone, MLflow derives a run's colour from its id, and two curves of one chart may well get the same.
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f", "#ff9da7", "#edc948")


def experiment_tags(start: Record) -> dict[str, str]:
    """Of the run of a whole experiment."""
    name, commit = start["experiment"], start["commit"][:7]
    restore = f"git checkout {commit}" if name.startswith("repro-") else f"dvc exp apply {name}"
    return {
        **_common_tags(start),
        "mlflow.source.name": "dvc.yaml",
        "mlflow.note.content": f"Started from commit {commit}. To return to it: `{restore}`" if commit else "",
    }


def stage_tags(start: Record, parent: str, color: int) -> dict[str, str]:
    """Of the run of one stage execution, shown below its parent."""
    return {
        **_common_tags(start),
        "bukva.stage": start["stage"],
        "bukva.kind": start["kind"],
        "bukva.journal": start["id"],
        **({"bukva.restored": "true"} if start["restored"] else {}),
        "mlflow.parentRunId": parent,
        "mlflow.source.name": f"stages/{start['stage'].replace('-', '_')}.py",
        "mlflow.runColor": COLORS[color % len(COLORS)],
    }


def moved(start: Record, parent: str) -> list["RunTag"]:
    """What changes of a stage's run that now belongs to another experiment."""
    from mlflow.entities import RunTag

    return [RunTag(name, word) for name, word in ({**_common_tags(start), "mlflow.parentRunId": parent}).items()]


def all_params(records: Iterable[Record]) -> list["Param"]:
    """All of params.yaml, if the start is among the records."""
    return [param for record in _only("start", records) for param in _params(record["params"])]


def own_params(records: Iterable[Record]) -> list["Param"]:
    """Those of them that the stage reads."""
    return [
        param
        for record in _only("start", records)
        for param in _params(record["params"])
        if param.key.partition(".")[0] in record["sections"]
    ]


def points(records: Iterable[Record]) -> list["Metric"]:
    """The metrics with the times they had, by which MLflow knows a point that it already has."""
    return [
        point
        for record in _only("metrics", records)
        for point in _points(record["values"], record["at"], record["step"])
    ]


def scores(journal: Journal, records: Iterable[Record]) -> list["Metric"]:
    """The numbers of the file of scores, named as DVC names them, if stage evaluate wrote it among the records."""
    return [
        point
        for record in _only("artifact", records)
        if (journal.start["stage"], record["path"]) == ("evaluate", SCORES)
        for point in _points(_numbers(read_json(journal.folder / "artifacts" / SCORES)), record["at"], 0)
    ]


def artifacts(records: Iterable[Record]) -> list[str]:
    """Paths below the journal's folder of artifacts."""
    return [record["path"] for record in _only("artifact", records)]


def words(records: Iterable[Record], offset: int) -> list["RunTag"]:
    """What the stage said itself, why it ended, and how far its journal was read."""
    from mlflow.entities import RunTag

    said = {name: word for record in _only("tags", records) for name, word in record["values"].items()}
    for end in _only("end", records):
        if end["note"]:
            said["mlflow.note.content"] = end["note"]
    return [RunTag(name, word) for name, word in {**said, "bukva.synced": str(offset)}.items()]


def _only(kind: str, records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record["record"] == kind]


def _common_tags(start: Record) -> dict[str, str]:
    return {
        "bukva.experiment": start["experiment"],
        "bukva.key": start["key"],
        "bukva.commit": start["commit"],
        "mlflow.source.git.commit": start["commit"],
        "mlflow.source.type": "LOCAL",
        "mlflow.user": start["user"],
    }


def _params(values: Mapping[str, Any]) -> list["Param"]:
    """MLflow keeps parameters as text; all but text becomes JSON."""
    from mlflow.entities import Param

    return [
        Param(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]


def _numbers(tree: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in flatten(tree).items() if isinstance(value, int | float)}


def _points(values: Mapping[str, float], at: int, step: int) -> list["Metric"]:
    from mlflow.entities import Metric

    return [Metric(name, value, at, step) for name, value in values.items()]
