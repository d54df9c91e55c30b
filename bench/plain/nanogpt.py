"""nanoGPT's own train.py (Karpathy 2022). It replaces the plain loop if BUKVA_NANOGPT names a checkout of nanoGPT."""

import os
import re
import shutil
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from bench.measure import Outcome, command

ON_CPU, ON_GPU = ("--device=cpu", "--compile=False"), ("--device=cuda", "--compile=True")
# nanoGPT's recipe for a CPU, from its README
RECIPE = (
    "--eval_iters=20", "--block_size=64", "--batch_size=12", "--n_layer=4", "--n_head=4",
    "--n_embd=128", "--max_iters=2000", "--lr_decay_iters=2000", "--dropout=0.0",
)  # fmt: skip
COMPILING = 20  # on a GPU, updates up to this one are not timed, because they compile
LAST = 1  # on a CPU, the update that is timed; update 0, with an estimate of the loss, warms up


def prepared(text: Path, folder: Path) -> Path | None:
    """Copy the checkout of nanoGPT to `folder` with this text as its data; return None without BUKVA_NANOGPT."""
    if "BUKVA_NANOGPT" not in os.environ:
        return None
    shutil.copytree(os.environ["BUKVA_NANOGPT"], folder, ignore=shutil.ignore_patterns(".git", "out*"))
    data = folder / "data" / "shakespeare_char"
    shutil.copy(text, data / "input.txt")  # prepare.py would download the file if it were missing
    command([sys.executable, "prepare.py"], data)
    return folder


def description(folder: Path | None) -> str:
    """Return the name of the plain implementation, for the table of results."""
    return "nanoGPT's train.py" if folder else "nanoGPT's training in a plain loop (bench/plain)"


def recipe(folder: Path) -> Outcome:
    """Run nanoGPT's recipe for a CPU to the end; the value `nats` is the last loss on val that it prints."""
    outcome = _train(folder, *ON_CPU, *RECIPE)
    nats = re.findall(r"^step .*, val loss ([\d.]+)", outcome.values["printed"], re.MULTILINE)[-1]
    return replace(outcome, values={"nats": float(nats)})


def update_ms(folder: Path) -> float:
    """Return the milliseconds that nanoGPT prints for an update of its GPU model on a CPU."""
    return _update_times(_train(folder, *ON_CPU, "--eval_iters=1", f"--max_iters={LAST}"))[LAST]


def compiled_update_ms(folder: Path) -> float:
    """Return the median milliseconds of an update of nanoGPT's GPU model on a GPU, after the updates that compile."""
    times = _update_times(_train(folder, *ON_GPU, "--eval_iters=1", "--max_iters=150"))
    return statistics.median(ms for number, ms in times.items() if number > COMPILING)


def _train(folder: Path, *options: str) -> Outcome:
    words = [sys.executable, "train.py", "config/train_shakespeare_char.py", "--log_interval=1", *options]
    return command(words, folder)


def _update_times(outcome: Outcome) -> dict[int, float]:
    """Return the milliseconds of each update by its number."""
    times = re.findall(r"iter (\d+): .* time ([\d.]+)ms", outcome.values["printed"])
    return {int(number): float(ms) for number, ms in times}
