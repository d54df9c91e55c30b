"""Measure the seconds and the memory of processes: jobs, and commands in clones of the last commit.

Every measurement starts a new process, so that no implementation uses caches, memory or threads of another one.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from ruamel.yaml import YAML

from bukva.core.errors import BukvaError
from bukva.core.files import resolve_path
from bukva.core.machine import CPUINFO, n_cores, processor
from bukva.core.params import read_yaml

ROOT = Path(__file__).resolve().parents[1]
T = TypeVar("T")
NOT_INHERITED = "DVC_", "MLFLOW_", "PYTHON", "BUKVA_MIRROR"  # prefixes of variables that can point to another project
PACKAGES = ("torch", "numpy", "dvc", "mlflow")
BF16_FLAGS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16"}


@dataclass(frozen=True)
class Outcome:
    """Result and cost of one process."""

    seconds: float  # wall time
    peak_bytes: int  # peak resident memory of the process, or of the largest child process that it waited for
    values: dict[str, Any] = field(default_factory=dict)  # what the process returned


def job(name: str, **arguments: Any) -> Outcome:
    """Run a job of bench.jobs in a new process.

    Raises:
        BukvaError: the job failed. The message is the job's own, or the command and the last line of its traceback.
    """
    outcome = command([sys.executable, "-m", "bench.jobs", name, json.dumps(arguments, default=str)])
    values = json.loads(outcome.values["printed"].splitlines()[-1])
    if "error" in values:
        raise BukvaError(values["error"])
    return replace(outcome, values=values)


def command(words: list[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a command in a folder and return its cost, with its output as the value `printed`.

    Raises:
        BukvaError: the command failed. The message contains the command and the last line of its output.
    """
    environment = environment or {**os.environ, "PYTHONPATH": path_with(str(ROOT / "src"))}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True
        )
        # the peak of a new process starts at the memory of its parent, so this process must stay small
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started_at
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        printed = out.read()
        if process.returncode:
            lines = [line.strip() for line in f"{printed}\n{err.read()}".splitlines() if line.strip()]
            why = lines[-1] if lines else f"failed with exit status {process.returncode} and printed nothing."
            raise BukvaError(f"{' '.join([Path(words[0]).name, *words[1:]])}: {why}")
        return Outcome(seconds, usage.ru_maxrss * 1024, {"printed": printed})  # Linux counts in KiB


def path_with(first: str) -> str:
    return os.pathsep.join(filter(None, [first, os.environ.get("PYTHONPATH")]))


def in_turn(n: int, *functions: Callable[[int], T]) -> list[list[T]]:
    """Call each function n times, with the number of the run as argument, and return the results by function.

    Each run begins with the next function (A B, B A, A B), so other load on the machine affects all alike.
    """
    results: list[list[T]] = [[] for _ in functions]
    for run in range(n):
        for position in range(len(functions)):
            index = (run + position) % len(functions)
            results[index].append(functions[index](run))
    return results


def timer() -> float:
    """Return the current time in seconds. If there is a GPU, wait until its queued work is done."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def machine() -> dict[str, Any]:
    """Return processor, number of cores and bf16 instructions of this machine, but nothing that identifies it."""
    flags = CPUINFO.read_text(encoding="utf-8") if CPUINFO.exists() else ""
    bf16 = [name for flag, name in BF16_FLAGS.items() if re.search(rf"\b{flag}\b", flags)]
    return {"cpu": processor(), "cores": n_cores(), "bf16": bf16}


def origin(folder: Path = ROOT) -> dict[str, Any]:
    """Return the commit, date, machine and versions of what is measured now."""
    return {
        "commit": git("rev-parse", "--short=12", "HEAD", folder=folder),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }


def git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


# ---- clones


def clone(folder: Path) -> Path:
    """Clone the last commit, without uncommitted changes, and return the folder."""
    command(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)])
    return folder


def dvc(folder: Path, *arguments: str) -> Outcome:
    """Run DVC in a clone."""
    return command([str(Path(sys.executable).with_name("dvc")), *arguments], folder, environment(folder))


def python(folder: Path, *arguments: str) -> Outcome:
    """Run a module in a clone, as DVC would run it."""
    here = {**environment(folder), "PYTHONPATH": path_with("src")}
    return command([sys.executable, "-m", *arguments], folder, here)


def params_with(changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the content of params.yaml with changes, given by section."""
    raw = read_yaml(ROOT / "params.yaml")
    for section, values in changes.items():
        raw[section].update(values)
    return raw


def write_params(folder: Path, changes: dict[str, dict[str, Any]]) -> None:
    YAML().dump(params_with(changes), folder / "params.yaml")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment for commands in a clone, without variables that point to another project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept["DVC_SITE_CACHE_DIR"] = str(folder.parent / "site-cache")
    mirror = os.environ.get("BUKVA_MIRROR")
    if mirror is not None:  # a relative path would be wrong in the folder of the clone
        kept["BUKVA_MIRROR"] = mirror if "://" in mirror else str(resolve_path(mirror).absolute())
    return kept
