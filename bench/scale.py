"""Time and memory of the stages of the text, for texts of any length: python -m bench.scale --corpus FOLDER 40 400.

A text of so many megabytes is made of the words of a corpus, shuffled within each line, so that little of it repeats.
One file has more than half of it. The numbers are of one run each: they show what grows with the text, not how fast a
machine is.
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
from ruamel.yaml import YAML

from bench.measure import ROOT

STAGES = "download", "clean", "tokenize", "split"
MEGABYTE = 10**6
LARGEST = 0.6  # of the text is one file
FILE_BYTES = 4 * MEGABYTE  # of each of the others
HELD_OUT_BYTES = 8 * MEGABYTE  # in val and in test at most: that many tell two models apart
SAMPLE_SECONDS = 0.05
SEED = 1337


def main(
    megabytes: Annotated[list[int], typer.Argument(help="Lengths of the text, in millions of bytes of UTF-8.")],
    corpus: Annotated[Path, typer.Option(help="Folder of .txt files whose lines are shuffled.")],
    scratch: Annotated[Path | None, typer.Option(help="Where the stages write; it is deleted afterwards.")] = None,
) -> None:
    """Run download, clean, tokenize and split on texts of these lengths, and print seconds and peak memory of each."""
    table = Table("MB", "stage", "seconds", "CPU seconds", "own memory, MB", "with files, MB")
    for size in megabytes:
        with tempfile.TemporaryDirectory(dir=scratch) as name:
            folder = Path(name)
            _make_text(folder / "books", corpus, size * MEGABYTE)
            _write_params(folder, size * MEGABYTE)
            for stage in STAGES:
                table.add_row(str(size), stage, *_run(folder, stage))
    Console().print(table)


def _make_text(folder: Path, corpus: Path, n_bytes: int) -> None:
    """Write one file with most of the text, and files of FILE_BYTES with the rest."""
    folder.mkdir()
    lines = _shuffled_lines(corpus)
    n_small = math.ceil((1 - LARGEST) * n_bytes / FILE_BYTES)
    sizes = [int(LARGEST * n_bytes), *itertools.repeat(FILE_BYTES, n_small)]
    for number, size in enumerate(sizes):
        with Path(folder, f"{number:04}.txt").open("wb") as file:
            while file.tell() < size:
                file.write(next(lines))


def _shuffled_lines(corpus: Path) -> Iterator[bytes]:
    """Lines of the corpus without end, the words of each in another order every time."""
    rng = random.Random(SEED)
    files = sorted(corpus.rglob("*.txt"))
    for file in itertools.cycle(files):
        for line in file.read_text(encoding="utf-8", errors="ignore").splitlines():
            words = line.split()
            rng.shuffle(words)
            yield f"{' '.join(words)}\n".encode()


def _write_params(folder: Path, n_bytes: int) -> None:
    params = YAML().load(ROOT / "params.yaml")
    share = min(0.05, round(HELD_OUT_BYTES / n_bytes, 6))
    params["download"] |= {"corpus": "local", "path": str(folder / "books")}
    params["split"] |= {"train": round(1 - 2 * share, 6), "val": share, "test": share}
    YAML().dump(params, folder / "params.yaml")


def _run(folder: Path, stage: str) -> list[str]:
    """Run a stage; its seconds, CPU seconds, and peak memory: its own, and with the pages of files that it maps."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    before, started_at, peaks = os.times(), time.perf_counter(), [0, 0]
    command = [sys.executable, "-m", f"stages.{stage.replace('-', '_')}"]
    process = psutil.Popen(command, cwd=folder, env=environment)
    while process.poll() is None:
        peaks = [max(pair) for pair in zip(peaks, _memory(process), strict=True)]
        time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise typer.Exit(1)
    seconds, after = time.perf_counter() - started_at, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return [f"{seconds:.1f}", f"{cpu:.1f}", *(f"{peak / MEGABYTE:.0f}" for peak in peaks)]


def _memory(process: psutil.Process) -> tuple[int, int]:
    """Bytes of a process and those that it started: without and with the pages of files, which the system can drop."""
    own = resident = 0
    with contextlib.suppress(psutil.Error):
        for each in (process, *process.children(recursive=True)):
            memory = each.memory_info()
            own, resident = own + memory.rss - memory.shared, resident + memory.rss
    return own, resident


if __name__ == "__main__":
    typer.run(main)
