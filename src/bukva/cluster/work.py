"""A worker: runs one trial, and says how it goes (python -m bukva.cluster.work, with a job as JSON on standard input).

It answers with a line of JSON for each piece of news (job.py), and ends with one of the statuses there. On SIGTERM the
training saves a checkpoint and ends, and so does the worker. A worker whose parent is gone ends in the same way, and
DVC ends with its worker, so that nothing trains on for nobody.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TypeVar

import psutil
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from bukva.base.errors import BukvaError
from bukva.cluster.carry import Carrier
from bukva.cluster.job import DONE, FAILED, STOPPED, TRY_AGAIN, Job, News
from bukva.cluster.origin import GitError, finished, push_result
from bukva.cluster.slot import Slot, slot_for
from bukva.cluster.watch import Watch
from bukva.experiments.remote import push
from bukva.tracking.background import start
from bukva.tracking.losing import OWN_ATTEMPT
from bukva.tracking.watched import hold

LOOK_SECONDS = 0.5
SAVE_SECONDS = 120.0  # for a training to save before it is killed
PUSH_SECONDS = 300.0  # for an origin to come back
LONGEST_PAUSE_SECONDS = 30.0
TAKE_OVER_SECONDS = 60.0
PR_SET_PDEATHSIG = 1  # of Linux' prctl

Say = Callable[[News], None]
Answer = TypeVar("Answer")


class StoppedError(Exception):
    """SIGTERM came."""


def main() -> int:
    """Run the job of standard input; returns the exit status."""
    _die_with_parent()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver, which decides
    job = Job.from_json(sys.stdin.readline())
    job = replace(job, attempt=job.attempt + int(os.environ.get("SLURM_RESTART_COUNT", 0)))
    os.environ.update(job.environment)
    try:
        sentence = run(job, _say)
        status = DONE
    except StoppedError:
        status, sentence = STOPPED, "stopped; the training continues when the same command is given again"
    except GitError as error:
        status, sentence = TRY_AGAIN, str(error)
    except BukvaError as error:
        status, sentence = FAILED, str(error)
    _say(News("end", {"text": sentence}))
    return status


def run(job: Job, say: Say) -> str:
    """Run a trial and push its result; returns a sentence.

    Raises:
        GitError: the origin is away; another try may help.
        BukvaError: a stage failed.
        StoppedError: SIGTERM came; what was trained is saved.
    """
    with slot_for(job) as slot:
        os.environ[OWN_ATTEMPT] = str(job.attempt)
        os.environ["BUKVA_ROOT"] = str(slot.project)  # where journals, checkpoints and MLflow are
        os.chdir(slot.project)  # DVC refuses to send from elsewhere
        if job.trial in _patiently(lambda: finished(slot.folder, job.origin, job.commit), say):
            return "the origin has its result already"
        if not job.project:
            _keep_to_cores(slot.number, job.cores)
        carrier = None if job.project else _patiently(lambda: Carrier(job), say)
        if carrier:
            hold(slot.project)  # the driver's user looks at MLflow elsewhere, so that trainings are followed at once
            _take_over(_patiently(carrier.fetch, say), job)
        _run_dvc(job, slot, say, carrier)
        if carrier:
            _send_objects(carrier, say)
        _patiently(lambda: push_result(slot.folder, job.origin, job.commit, job.trial), say)
    return "finished"


def _run_dvc(job: Job, slot: Slot, say: Say, carrier: Carrier | None) -> None:
    command = [sys.executable, "-m", "dvc", "exp", "run", "--name", job.trial]
    command += ["--pull"] if carrier else []
    for setting in job.settings:
        command += ["-S", setting]
    process = subprocess.Popen(
        command,
        cwd=slot.folder,
        env={**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=_die_with_parent,
    )
    printed: list[str] = []
    reader = threading.Thread(target=_forward, args=(process, say, printed), daemon=True)
    reader.start()
    watch, sender = Watch(job.trial, job.commit), Sender(carrier, say)
    try:
        while process.poll() is None:
            _show(watch, say)
            time.sleep(LOOK_SECONDS)
    except StoppedError:
        _end(process)
        raise
    finally:
        sender.end()
    reader.join(LOOK_SECONDS)
    _show(watch, say)
    if process.returncode:
        raise BukvaError(_reason(printed) or f"dvc exp run: exit status {process.returncode}")


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


def _send_objects(carrier: Carrier, say: Say) -> None:
    """Send all that belongs to the result; the reference goes last: where it is, the experiment is complete.

    Raises:
        GitError: the remote is away.
    """
    try:
        _patiently(push, say)
        _patiently(carrier.finish, say)
    except BukvaError as error:
        raise GitError(str(error)) from None


def _take_over(journals: list[Path], job: Job) -> None:
    """Let journals that came from a lost machine continue their runs in MLflow; without MLflow the training goes on."""
    for folder in journals:
        process = start("take-over", str(folder), str(job.attempt))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TAKE_OVER_SECONDS)


class Sender:
    """Sends checkpoints while a training goes on, in a thread, because a remote may be slow or away."""

    def __init__(self, carrier: Carrier | None, say: Say) -> None:
        self._carrier, self._say = carrier, say
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if carrier:
            self._thread.start()

    def end(self) -> None:
        """Send the last one."""
        self._over.set()
        if self._carrier:
            self._thread.join()

    def _run(self) -> None:
        reported, over = "", False
        while not over:
            over = self._over.wait(LOOK_SECONDS)  # before sending, so that the last round sends everything
            try:
                self._carrier.send() if self._carrier else None
            except BukvaError as error:
                if str(error) != reported:
                    self._say(News("log", {"text": f"no checkpoint was sent: {error}"}))
                reported = str(error)


def _patiently(call: Callable[[], Answer], say: Say) -> Answer:
    """Call it until it succeeds, for PUSH_SECONDS: a server may restart. Each failure is news."""
    for attempt in Retrying(
        retry=retry_if_exception_type(BukvaError),
        wait=wait_exponential(max=LONGEST_PAUSE_SECONDS),
        stop=stop_after_delay(PUSH_SECONDS),
        before_sleep=lambda state: say(News("log", {"text": f"{_error_of(state)} It is tried again."})),
        reraise=True,
    ):
        with attempt:
            return call()
    raise AssertionError  # the last failure is raised above


def _error_of(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _keep_to_cores(slot: int, cores: int) -> None:
    """Let this process and all below it use the cores of its slot only.

    A training adds in another order with another number of threads, so that machines with more cores would train other
    weights. On the driver's machine trials have all cores, as those of DVC's queue.
    """
    if sys.platform == "linux":
        known = sorted(os.sched_getaffinity(0))
        first = slot * cores % len(known)
        os.sched_setaffinity(0, {known[(first + index) % len(known)] for index in range(min(cores, len(known)))})


def _die_with_parent() -> None:
    """Let Linux send SIGTERM to this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(_: int, __: FrameType | None) -> None:
    raise StoppedError


def _say(news: News) -> None:
    print(news.to_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
