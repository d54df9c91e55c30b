"""Rows of the pipeline: how long a user waits for commands of DVC, in clones of the last commit."""

import json
import os
from pathlib import Path

from bench.clone import clone, dvc
from bench.rows import Line
from bukva.core.errors import BukvaError

RUNS = 3
# few updates, because other rows measure their speed, and a user chooses their number
SETTINGS = {
    "download.corpus": "ruslit", "split.train": 0.98, "split.val": 0.01, "split.test": 0.01, "model.ngrams": "input",
    "train_gpt.n_steps": 20, "train_gpt.eval_every": 20, "train_gpt.warmup_steps": 5, "train_bigram.n_steps": 20,
    "train_bigram.eval_every": 20, "sample.n_chars": 100,
}  # fmt: skip


def repro(scratch: Path) -> list[Line]:
    """Time `dvc repro -f` on the embedded corpus, and `dvc repro` with nothing to do."""
    folder = clone(scratch / "repro")
    whole = [dvc(folder, "repro", "-f").seconds for _ in range(RUNS)]
    idle = [dvc(folder, "repro").seconds for _ in range(RUNS)]
    return [
        Line("dvc repro -f, the whole pipeline on the embedded corpus", "s", whole, [], 100.0),
        Line("dvc repro with nothing to do", "s", idle, [], 2.0),
    ]


def ruslit(scratch: Path) -> list[Line]:
    """Time the first and the second experiment on RusLit, with 20 updates and one run each.

    Raises:
        BukvaError: BUKVA_MIRROR is not set.
    """
    if "BUKVA_MIRROR" not in os.environ:
        raise BukvaError(
            "RusLit cannot be downloaded without a mirror. Set BUKVA_MIRROR to a folder that contains its archive."
        )
    folder = clone(scratch / "ruslit-clone")
    settings = [word for name, value in SETTINGS.items() for word in ("-S", f"{name}={value}")]
    first = dvc(folder, "exp", "run", *settings).seconds
    evaluate = _stage_seconds(folder, "evaluate")
    second = dvc(folder, "exp", "run", *settings, "-S", "model.n_head=2").seconds
    n_steps = SETTINGS["train_gpt.n_steps"]
    return [
        Line(f"the first experiment on RusLit, with n-grams and {n_steps} updates: dvc exp run", "s", [first], []),
        Line("stage evaluate of the first experiment", "s", [evaluate], [], 120.0),
        Line("the second experiment, with another number of heads", "s", [second], []),
    ]


def _stage_seconds(folder: Path, stage: str) -> float:
    """Return the time of a stage that ran once in a clone, from its journal. The start of Python is not included."""
    (file,) = folder.glob(f".bukva/journal/*/{stage}-*/journal.jsonl")
    first, *_, last = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return float(last["at"] - first["at"]) / 1000
