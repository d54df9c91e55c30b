"""DVC as a process below a worker: started, watched, and ended after its training has saved."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import psutil

from bukva.base.errors import BukvaError
from bukva.cluster.job import Job, News, Say
from bukva.cluster.watch import Watch

LOOK_SECONDS = 0.5
SAVE_SECONDS = 120.0  # for a training to save before it is killed
PR_SET_PDEATHSIG = 1  # of Linux' prctl


class StoppedError(Exception):
    """SIGTERM came."""


def run_dvc(job: Job, folder: Path, say: Say, *, pull: bool) -> None:
    """Run `dvc exp run`, and say what it prints and how far it is.

    Args:
        job: the trial.
        folder: the root of the project in which DVC runs.
        say: takes the news.
        pull: whether DVC takes from its remote what others have computed.

    Raises:
        BukvaError: a stage failed.
        StoppedError: SIGTERM came; what was trained is saved.
    """
    command = [sys.executable, "-m", "dvc", "exp", "run", "--name", job.trial]
    command += ["--pull"] if pull else []
    for setting in job.settings:
        command += ["-S", setting]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=die_with_parent,
    )
    printed: list[str] = []
    reader = threading.Thread(target=_forward, args=(process, say, printed), daemon=True)
    reader.start()
    watch = Watch(job.trial, job.commit)
    try:
        while process.poll() is None:
            _show(watch, say)
            time.sleep(LOOK_SECONDS)
    except StoppedError:
        _end(process)
        raise
    reader.join(LOOK_SECONDS)
    _show(watch, say)
    if process.returncode:
        raise BukvaError(_reason(printed) or f"dvc exp run: exit status {process.returncode}")


def die_with_parent() -> None:
    """Let Linux send SIGTERM to this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _forward(process: "subprocess.Popen[str]", say: Say, printed: list[str]) -> None:
    for line in process.stdout or ():
        printed.append(line.rstrip("\n"))
        say(News("log", {"text": printed[-1]}))


def _show(watch: Watch, say: Say) -> None:
    for progress in watch.news():
        say(News("progress", asdict(progress)))


def _reason(printed: list[str]) -> str:
    """The line before DVC's own error is that of the stage."""
    said = [line.strip() for line in printed if line.strip()]
    errors = [index for index, line in enumerate(said) if line.startswith("ERROR: ")]
    if not errors:
        return said[-1] if said else ""
    before = said[errors[0] - 1] if errors[0] and "failed to reproduce" in said[errors[0]] else ""
    return before or said[errors[0]].removeprefix("ERROR: ")


def _end(process: "subprocess.Popen[str]") -> None:
    """Let the stage save and end, which ends DVC; kill what is left."""
    with contextlib.suppress(psutil.NoSuchProcess):
        below = psutil.Process(process.pid).children(recursive=True)
        stages = [each for each in below if _is_stage(each)]
        for each in stages or [psutil.Process(process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SAVE_SECONDS)
        for each in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    process.kill()
    process.wait()


def _is_stage(process: psutil.Process) -> bool:
    """Whether a process is that of a stage, which passes signals on to those that it starts."""
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        return words[1:2] == ["-m"] and words[2].startswith("stages.")
    return False
