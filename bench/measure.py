"""Seconds and memory of a process.

Each measurement has a new process, so that no side uses caches, memory or threads of another.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bukva.core.errors import BukvaError
from bukva.core.machine import CPUINFO, n_cores, processor

ROOT = Path(__file__).resolve().parents[1]
T = TypeVar("T")
BF16_FLAGS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16"}


@dataclass(frozen=True)
class Outcome:
    """What one process returned and cost."""

    seconds: float  # of wall time, from its start to its end, less those that it says are not counted ("untimed")
    peak_bytes: int  # of resident memory: its own, or that of the largest process that it waited for
    values: dict[str, Any] = field(default_factory=dict)  # as the process returned them


def job(name: str, **arguments: Any) -> Outcome:
    """Run a job of bench.job in a new process.

    Raises:
        BukvaError: it failed: its own sentence, or the command and the last line of its traceback.
    """
    outcome = command([sys.executable, "-m", "bench.job", name, json.dumps(arguments, default=str)])
    values = json.loads(outcome.values["printed"].splitlines()[-1])
    if "error" in values:
        raise BukvaError(values["error"])
    return Outcome(outcome.seconds - values.get("untimed", 0.0), outcome.peak_bytes, values)


def command(words: list[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a command in a folder; its only value is what it `printed`.

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
        out.seek(0)
        return Outcome(seconds, usage.ru_maxrss * 1024, {"printed": out.read()})  # Linux counts in KiB


def in_turn(n: int, *sides: Callable[[int], T]) -> list[list[T]]:
    """The n results of each side, called with the number of the run.

    Each run calls every side, and begins with another one than the last: A B, B A, A B. So whatever the machine does
    beside, it does to all of them.
    """
    results: list[list[T]] = [[] for _ in sides]
    for run in range(n):
        for place in range(len(sides)):
            side = (run + place) % len(sides)
            results[side].append(sides[side](run))
    return results


def timer() -> float:
    """A time in seconds, once a GPU, if there is one, has done what it was told."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def machine() -> dict[str, Any]:
    """Processor, cores and bf16 instructions; no name that identifies it."""
    flags = CPUINFO.read_text(encoding="utf-8") if CPUINFO.exists() else ""
    bf16 = [name for flag, name in BF16_FLAGS.items() if re.search(rf"\b{flag}\b", flags)]
    return {"cpu": processor(), "cores": n_cores(), "bf16": bf16}


def _last_line(file: Any) -> str:
    file.seek(0)
    return next((line.strip() for line in reversed(file.read().splitlines()) if line.strip()), "")


def _short(words: list[str]) -> str:
    return " ".join([Path(words[0]).name, *words[1:]])


def _exit(status: int) -> str:
    return f"failed with exit status {status} and printed nothing."
