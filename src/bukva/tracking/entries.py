"""The records of journals as MLflow's tags, parameters and metrics."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bukva.config.load import flatten
from bukva.text.units import bits
from bukva.tracking.datasets import USES
from bukva.tracking.description import with_sections
from bukva.tracking.models.scores import BITS, Evaluation
from bukva.tracking.notes import Notes
from bukva.tracking.records import Record

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Param, RunTag

DESCRIPTION = "mlflow.note.content"
SECTIONS = "bukva.sections"  # what the store got last of the sections of a description
FILES = "bukva.files"  # digests of the files of a whole experiment that the store has, by name
CONTEXT = "mlflow.data.context"  # what a dataset is used for
NATS = "nats_per_char"
VERSION = "5"  # of what is made of a record; a run that an older bukva filled is filled again

# By default MLflow derives a run's colour from its id, and two curves of one chart may get the same.
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f", "#ff9da7", "#edc948")


def experiment_tags(start: Record) -> dict[str, str]:
    """Tags of the run of a whole experiment."""
    name, commit = start["experiment"], start["commit"][:7]
    restore = f"git checkout {commit}" if name.startswith("repro-") else f"dvc exp apply {name}"
    return {
        **_common_tags(start),
        "mlflow.source.name": "dvc.yaml",
        DESCRIPTION: f"Started from commit {commit}. To return to it: `{restore}`" if commit else "",
    }


def label(start: Record) -> str:
    """What MLflow calls the run of a whole experiment."""
    return str(start.get("label", start["experiment"]))  # older journals have none


def stage_name(start: Record) -> str:
    """What MLflow calls the run of a stage execution: many of them stand in one legend."""
    return f"{label(start)}: {start['stage']}"


def stage_tags(start: Record, parent: str, color: int) -> dict[str, str]:
    """Tags of the run of one stage execution, shown below its parent."""
    return {
        **_common_tags(start),
        "bukva.stage": start["stage"],
        "bukva.kind": start["kind"],
        "bukva.journal": start["id"],
        **({"bukva.restored": "true"} if start["restored"] else {}),
        "mlflow.parentRunId": parent,
        "mlflow.source.name": f"stages/{start['stage'].replace('-', '_')}.py",
        "mlflow.runColor": COLORS[color % len(COLORS)],
        **({DESCRIPTION: text} if (text := description(start)) else {}),
    }


def description(start: Record) -> str:
    """What MLflow shows above the metrics of a stage's run: of a training, why it has two scores of val."""
    if start["kind"] != "training":
        return ""
    model = start["stage"].removeprefix("train-")
    return (
        f"`{model}.val` and `{model}.test` are the scores that experiments are compared by: bits per character of the "
        "best weights, each work scored after its own text. `val_bits_per_char` is the curve: all of val scored as one "
        "stream while training, so it ends a little higher."
    )


def tags_that_move(start: Record, parent: str) -> list["RunTag"]:
    """The tags that change when a stage's run moves to another experiment."""
    return run_tags({**_common_tags(start), "mlflow.parentRunId": parent})


def all_params(records: Iterable[Record]) -> list["Param"]:
    """All of params.yaml, if the start record is among the records."""
    return [param for record in _only("start", records) for param in _params(record["params"])]


def own_params(records: Iterable[Record]) -> list["Param"]:
    """Those that the stage reads, if the start record is among the records."""
    return [
        param
        for record in _only("start", records)
        for param in _params(record["params"])
        if param.key.partition(".")[0] in record["sections"]
    ]


def inputs(records: Iterable[Record]) -> list["DatasetInput"]:
    """The splits that a stage read, if the start record is among the records."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return [
        DatasetInput(
            Dataset(
                each["name"], each["digest"], "dvc", json.dumps(each["source"]), profile=json.dumps(each["profile"])
            ),
            [InputTag(CONTEXT, USES[each["split"]])],
        )
        for record in _only("start", records)
        for each in record.get("datasets", ())  # older journals have none
    ]


def points(records: Iterable[Record]) -> list["Metric"]:
    """The metrics, each nats per character also in bits.

    They keep the times of their records, by which MLflow recognises a point that it already has.
    """
    return [
        point
        for record in _only("metrics", records)
        for point in _points(_with_bits(record["values"]), record["at"], record["step"])
    ]


def scores(found: Evaluation | None) -> list["Metric"]:
    """The numbers of metrics.json, named as in DVC."""
    return _points(_numbers(found.content), found.at, 0) if found else []


def artifacts(records: Iterable[Record]) -> list[str]:
    """Paths below the journal's folder of artifacts; a model is not among them, because MLflow keeps it apart."""
    records = list(records)
    apart = {record["path"] for record in models(records)}
    paths = [record["path"] for record in _only("artifact", records) if record["path"] not in apart]
    return list(dict.fromkeys(paths))  # a file that was replaced is sent once


def models(records: Iterable[Record]) -> list[Record]:
    """The trained models among the records."""
    return _only("model", records)


def texts(start: Record, records: Iterable[Record], offset: int) -> list["RunTag"]:
    """The tags among the records, why the stage ended, and how far its journal was read."""
    tags = {name: text for record in _only("tags", records) for name, text in record["values"].items()}
    for end in _only("end", records):
        if end["note"]:
            tags[DESCRIPTION] = "\n\n".join(filter(None, [end["note"], description(start)]))
    return run_tags(tags | synced_tags(offset))


def missing_notes(notes: Notes, tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that a whole experiment's run with these tags lacks to show its notes.

    Raises:
        ValueError: somebody changed the tag SECTIONS.
    """
    text, received = with_sections(tags.get(DESCRIPTION, ""), notes.sections, json.loads(tags.get(SECTIONS, "{}")))
    described = {DESCRIPTION: text, SECTIONS: json.dumps(received)} if notes.sections else {}
    return {name: text for name, text in {**notes.tags, **described}.items() if tags.get(name) != text}


def missing_files(files: Mapping[str, str], tags: Mapping[str, str]) -> list[str]:
    """The names of the files, with their digests, that a whole experiment's run with these tags lacks.

    Raises:
        ValueError: somebody changed the tag FILES.
    """
    received = json.loads(tags.get(FILES, "{}"))
    return [name for name, digest in files.items() if received.get(name) != digest]


def files_tag(files: Mapping[str, str]) -> dict[str, str]:
    """The tag of a run that has these files."""
    return {FILES: json.dumps(files)}


def run_tags(tags: Mapping[str, str]) -> list["RunTag"]:
    """MLflow's objects for these tags."""
    from mlflow.entities import RunTag

    return [RunTag(name, text) for name, text in tags.items()]


def synced_tags(offset: int) -> dict[str, str]:
    """The tags of a run that has this many bytes of its journal."""
    return {"bukva.synced": str(offset), "bukva.version": VERSION}


def is_derived(name: str, names: Iterable[str]) -> bool:
    """Whether a metric was computed from another one of these: bits from nats."""
    return name.endswith(BITS) and name.replace(BITS, NATS) in names


def synced_bytes(tags: Mapping[str, str]) -> int:
    """How many bytes of its journal a run with these tags has."""
    return int(tags.get("bukva.synced", 0)) if tags.get("bukva.version") == VERSION else 0


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
    """MLflow stores parameters as text; everything else becomes JSON."""
    from mlflow.entities import Param

    return [
        Param(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]


def _numbers(tree: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in flatten(tree).items() if isinstance(value, int | float)}


def _with_bits(values: Mapping[str, float]) -> dict[str, float]:
    in_bits = {name.replace(NATS, BITS): bits(value) for name, value in values.items() if name.endswith(NATS)}
    return {**values, **in_bits}


def _points(values: Mapping[str, float], at: int, step: int) -> list["Metric"]:
    from mlflow.entities import Metric

    return [Metric(name, value, at, step) for name, value in values.items()]
