"""The splits as MLflow shows datasets: what a run was trained and scored on."""

from pathlib import Path
from typing import Any

from bukva.config.schema import Params
from bukva.core.files import read_json
from bukva.project.lock import LOCK, recorded
from bukva.project.stages import Kind, paths

USES = {"train": "training", "val": "validation", "test": "test"}
READ_BY: dict[Kind, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}


def datasets(kind: Kind, params: Params) -> list[dict[str, Any]]:
    """The splits that a stage of this kind reads; none before stage split has run.

    Each has its name, the digest that DVC gives the folder of all splits, where the text comes from, its split, and its
    number of characters.
    """
    if kind not in READ_BY:
        return []
    try:
        outs = recorded(LOCK.read_text(encoding="utf-8"))["split"]["outs"]
        [digest] = (out["md5"] for out in outs if out["path"] == paths()["split"])
        report = read_json(Path(paths()["split_report"]))
    except (OSError, ValueError, KeyError, TypeError):  # there is none yet, or DVC is writing it
        return []
    corpus = params.download.corpus
    return [
        {
            "name": f"{corpus}/{split}",
            "digest": digest,
            "source": {"corpus": corpus, "path": paths()["split"]},
            "split": split,
            "profile": {"characters": report[split]["chars"]},
        }
        for split in READ_BY[kind]
        if split in report
    ]
