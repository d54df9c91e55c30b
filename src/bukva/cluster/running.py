"""DVC as a process below a worker: started, watched, and ended after its training has saved."""

import contextlib
import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import psutil

from bukva.cluster.job import Job, News, Say
from bukva.cluster.watch import Watch
from bukva.core.errors import BukvaError, LostError

LOOK_SECONDS = 0.5
SAVE_SECONDS = 120.0  # for a training to save before it is killed
EXITED = re.compile(r"^ERROR: .*exited with (\d+)$")
PR_SET_PDEATHSIG = 1  # of Linux' prctl


class StoppedError(Exception):
    """SIGTERM came."""


def run_dvc(job: Job, folder: Path, say: Say, *, pull: bool, until: str = "") -> None:
    """Run `dvc exp run`, and say what it prints and how far it is.

    Args:
        job: the trial.
        folder: the root of the project in which DVC runs.
        say: takes the news.
        pull: whether DVC takes from its remote what others have computed.
        until: the last stage; all without it.

    Raises:
        BukvaError: a stage failed.
        LostError: it failed because another machine was lost.
        StoppedError: SIGTERM came; what was trained is saved.
    """
    command = [sys.executable, "-m", "dvc", "exp", "run", "--name", job.trial]
    command += ["--pull"] if pull else []
    for setting in job.settings:
        command += ["-S", setting]
    _run([*command, *filter(None, [until])], folder, say, Watch(job.trial, job.commit))


def run_stage(name: str, job: Job, folder: Path, say: Say) -> None:
    """Run a stage without DVC, which would cache its outputs; params.yaml is as the last run_dvc has left it.

    Raises:
        BukvaError, LostError, StoppedError: as run_dvc.
    """
    from dvc.repo import Repo

    with Repo(str(folder)) as repo:
        command = str(repo.stage.load_one(name=name).cmd)
    # env becomes the stage, so that this process is its parent
    _run(["env", *shlex.split(command)], folder, say, Watch(job.trial, job.commit))


def _run(command: list[str], folder: Path, say: Say, watch: Watch) -> None:
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
        status = _status_of_stage(printed, process.returncode)
        kind = LostError if status == LostError.exit_status else BukvaError
        raise kind(_reason(printed) or f"{command[0]}: exit status {status}")


def die_with_parent() -> None:
    """Let Linux send SIGTERM to this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _forward(process: "subprocess.Popen[str]", say: Say, printed: list[str]) -> None:
    assert process.stdout
    with process.stdout:
        for line in process.stdout:
            printed.append(line.rstrip("\n"))
            say(News("log", {"text": printed[-1]}))


def _show(watch: Watch, say: Say) -> None:
    for progress in watch.news():
        say(News("progress", asdict(progress)))


def _status_of_stage(printed: list[str], status: int) -> int:
    """DVC's own status does not tell that of its stage; its message does."""
    found = [number for line in printed for number in EXITED.findall(line)]
    return int(found[-1]) if found else status


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
