"""Rows of the pipeline: what a user waits for, in clones of the last commit."""

import json
import os
from pathlib import Path

from bench.clone import clone, dvc
from bench.rows import Line
from bukva.core.errors import BukvaError

RUNS = 3
# A few updates: their speed is in other rows, and their number is the user's choice.
SETTINGS = {
    "download.corpus": "ruslit", "split.train": 0.98, "split.val": 0.01, "split.test": 0.01, "model.ngrams": "input",
    "train_gpt.n_steps": 20, "train_gpt.eval_every": 20, "train_gpt.warmup_steps": 5, "train_bigram.n_steps": 20,
    "train_bigram.eval_every": 20, "sample.n_chars": 100,
}  # fmt: skip


def repro(scratch: Path) -> list[Line]:
    """Seconds of dvc repro -f on the embedded corpus, and of dvc repro with nothing to do."""
    folder = clone(scratch / "repro")
    whole = [dvc(folder, "repro", "-f").seconds for _ in range(RUNS)]
    idle = [dvc(folder, "repro").seconds for _ in range(RUNS)]
    return [
        Line("dvc repro -f, the whole pipeline on the embedded corpus", "s", whole, [], 100.0),
        Line("dvc repro with nothing to do", "s", idle, [], 2.0),
    ]


def ruslit(scratch: Path) -> list[Line]:
    """Seconds of the first and the second experiment on RusLit, with 20 updates; once each.

    Raises:
        BukvaError: there is no mirror.
    """
    if "BUKVA_MIRROR" not in os.environ:
        raise BukvaError("no mirror to download RusLit from; set BUKVA_MIRROR to a folder that contains its archive.")
    folder = clone(scratch / "ruslit-clone")
    settings = [word for name, value in SETTINGS.items() for word in ("-S", f"{name}={value}")]
    first = dvc(folder, "exp", "run", *settings).seconds
    evaluate = _stage_seconds(folder, "evaluate")
    second = dvc(folder, "exp", "run", *settings, "-S", "model.n_head=2").seconds
    n_steps = SETTINGS["train_gpt.n_steps"]
    return [
        Line(f"the first experiment on RusLit, with n-grams and {n_steps} updates: dvc exp run", "s", [first], []),
        Line("its stage evaluate", "s", [evaluate], [], 120.0),
        Line("the second experiment, with another number of heads", "s", [second], []),
    ]


def _stage_seconds(folder: Path, stage: str) -> float:
    """Of the only run of a stage in a clone, by its journal: without the start of Python."""
    (file,) = folder.glob(f".bukva/journal/*/{stage}-*/journal.jsonl")
    first, *_, last = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return float(last["at"] - first["at"]) / 1000
