"""Seconds and memory of what runs as a process of its own.

A fresh process each time, so that neither side finds caches, memory or threads that the other left behind.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bukva.base.errors import BukvaError

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Outcome:
    """What one process gave and cost."""

    seconds: float  # of wall time, from its start to its end
    peak_bytes: int  # of resident memory: its own, or that of the largest process which it waited for
    values: dict[str, Any] = field(default_factory=dict)  # numbers of its own


def job(name: str, **arguments: Any) -> Outcome:
    """Run a job of bench.job in a new process.

    Raises:
        BukvaError: it failed; says so with the last line of what it told.
    """
    return command([sys.executable, "-m", "bench.job", name, json.dumps(arguments, default=str)], reads_values=True)


def command(
    words: list[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None, reads_values: bool = False
) -> Outcome:
    """Run a command in a folder; with `reads_values` its last line of output is JSON and becomes the values.

    Without an environment it is this process's own, with bukva on the path.

    Raises:
        BukvaError: it failed; names the command and gives the last line of what it told.
    """
    environment = environment or {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True
        )
        # A new process counts the memory of the one that started it as its own peak, so this one has to stay light.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started_at
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise BukvaError(f"{_short(words)}: {_last_line(err) or _last_line(out) or _exit(process.returncode)}")
        values = json.loads(_last_line(out)) if reads_values else {}
    return Outcome(seconds, usage.ru_maxrss * 1024, values)  # Linux counts in KiB


def alternate(
    n: int, ours: Callable[[], Outcome], theirs: Callable[[], Outcome]
) -> tuple[list[Outcome], list[Outcome]]:
    """Run both sides n times in turn, so that a machine that slows down slows both."""
    pairs = [(ours(), theirs()) for _ in range(n)]
    return [mine for mine, _ in pairs], [other for _, other in pairs]


def _last_line(file: Any) -> str:
    file.seek(0)
    return next((line.strip() for line in reversed(file.read().splitlines()) if line.strip()), "")


def _short(words: list[str]) -> str:
    return " ".join([Path(words[0]).name, *words[1:]])


def _exit(status: int) -> str:
    return f"ended with exit status {status} and said nothing."
