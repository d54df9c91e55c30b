"""Seconds and memory of a process.

Each measurement has a new process, so that no side uses caches, memory or threads of another.
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

from bukva.core.errors import BukvaError

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Outcome:
    """What one process returned and cost."""

    seconds: float  # of wall time, from its start to its end
    peak_bytes: int  # of resident memory: its own, or that of the largest process that it waited for
    values: dict[str, Any] = field(default_factory=dict)  # as the process returned them


def job(name: str, **arguments: Any) -> Outcome:
    """Run a job of bench.job in a new process.

    Raises:
        BukvaError: it failed: its own sentence, or the command and the last line of its traceback.
    """
    words = [sys.executable, "-m", "bench.job", name, json.dumps(arguments, default=str)]
    outcome = command(words, reads_values=True)
    if "error" in outcome.values:
        raise BukvaError(outcome.values["error"])
    return outcome


def command(
    words: list[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None, reads_values: bool = False
) -> Outcome:
    """Run a command in a folder; with `reads_values` the last line of its output is JSON and becomes the values.

    The default environment is that of this process, with bukva on the path.

    Raises:
        BukvaError: it failed; the command and the last line of its output.
    """
    environment = environment or {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True
        )
        # A new process counts the memory of the one that started it as its own peak, so this one must stay small.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started_at
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise BukvaError(f"{_short(words)}: {_last_line(err) or _last_line(out) or _exit(process.returncode)}")
        values = json.loads(_last_line(out)) if reads_values else {}
    return Outcome(seconds, usage.ru_maxrss * 1024, values)  # Linux counts in KiB


def alternate(n: int, ours: Callable[[], Outcome], plain: Callable[[], Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Run both sides n times in turn, so that a machine that slows down affects both."""
    pairs = [(ours(), plain()) for _ in range(n)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def _last_line(file: Any) -> str:
    file.seek(0)
    return next((line.strip() for line in reversed(file.read().splitlines()) if line.strip()), "")


def _short(words: list[str]) -> str:
    return " ".join([Path(words[0]).name, *words[1:]])


def _exit(status: int) -> str:
    return f"failed with exit status {status} and printed nothing."
