"""Time and memory of the text stages for texts of any length: `python -m bench.scale --corpus FOLDER 40 400`.

Each text has the given number of megabytes. It is generated from the lines of a corpus, with the words of each line
shuffled, so that little text repeats. One file has more than half of the text. Every number comes from one run, so the
numbers show what grows with the text, not how fast a machine is.
"""

import contextlib
import itertools
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

from bench.measure import ROOT, write_params

STAGES = "download", "clean", "tokenize", "split"
MEGABYTE = 10**6
LARGEST = 0.6  # fraction of the text that is in the largest file
FILE_BYTES = 4 * MEGABYTE  # size of every other file
HELD_OUT_BYTES = 8 * MEGABYTE  # maximum size of val and of test, which is enough to distinguish two models
SAMPLE_SECONDS = 0.05
SEED = 1337


def main(
    megabytes: Annotated[list[int], typer.Argument(help="Sizes of the texts, in millions of bytes of UTF-8.")],
    corpus: Annotated[Path, typer.Option(help="Folder of .txt files whose lines are shuffled.")],
    scratch: Annotated[
        Path | None, typer.Option(help="Parent of the temporary folder in which the stages run.")
    ] = None,
) -> None:
    """Run download, clean, tokenize and split on texts of these sizes, and print the time and peak memory of each."""
    table = Table("MB", "stage", "seconds", "CPU seconds", "own memory, MB", "with files, MB")
    for size in megabytes:
        with tempfile.TemporaryDirectory(dir=scratch) as name:
            folder, n_bytes = Path(name), size * MEGABYTE
            (folder / "books").mkdir()
            _make_text(folder / "books", corpus, n_bytes)
            share = min(0.05, round(HELD_OUT_BYTES / n_bytes, 6))
            split = {"train": round(1 - 2 * share, 6), "val": share, "test": share}
            write_params(folder, {"download": {"corpus": "local", "path": str(folder / "books")}, "split": split})
            for stage in STAGES:
                table.add_row(str(size), stage, *_run(folder, stage))
    Console().print(table)


def _make_text(folder: Path, corpus: Path, n_bytes: int) -> None:
    """Write one file with the fraction LARGEST of the text, and files of FILE_BYTES with the rest."""
    lines = _shuffled_lines(corpus)
    n_small = math.ceil((1 - LARGEST) * n_bytes / FILE_BYTES)
    for number, size in enumerate([int(LARGEST * n_bytes), *itertools.repeat(FILE_BYTES, n_small)]):
        with Path(folder, f"{number:04}.txt").open("wb") as file:
            while file.tell() < size:
                file.write(next(lines))


def _shuffled_lines(corpus: Path) -> Iterator[bytes]:
    """Yield the lines of the corpus endlessly, with the words of each line shuffled anew every time."""
    rng = random.Random(SEED)
    for file in itertools.cycle(sorted(corpus.rglob("*.txt"))):
        for line in file.read_text(encoding="utf-8", errors="ignore").splitlines():
            words = line.split()
            rng.shuffle(words)
            yield f"{' '.join(words)}\n".encode()


def _run(folder: Path, stage: str) -> list[str]:
    """Run a stage; return its seconds, CPU seconds, peak private memory and peak memory with mapped files."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    before, started_at, own, with_files = os.times(), time.perf_counter(), 0, 0
    process = psutil.Popen([sys.executable, "-m", f"stages.{stage}"], cwd=folder, env=environment)
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            infos = [each.memory_info() for each in (process, *process.children(recursive=True))]
            # the system can drop the pages of mapped files
            own = max(own, sum(info.rss - info.shared for info in infos))
            with_files = max(with_files, sum(info.rss for info in infos))
        time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise typer.Exit(1)
    seconds, after = time.perf_counter() - started_at, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return [f"{seconds:.1f}", f"{cpu:.1f}", f"{own / MEGABYTE:.0f}", f"{with_files / MEGABYTE:.0f}"]


if __name__ == "__main__":
    typer.run(main)
