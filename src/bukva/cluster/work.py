"""A worker: runs one trial, and says how it goes (python -m bukva.cluster.work, with a job as JSON on standard input).

It answers with a line of JSON for each piece of news (job.py), and ends with one of the statuses there. On SIGTERM the
training saves a checkpoint and ends, and so does the worker. A worker whose parent is gone ends in the same way, and
DVC ends with its worker, so that nothing trains on for nobody.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from bukva.cluster.carry import Carrier
from bukva.cluster.job import DONE, FAILED, STOPPED, TRY_AGAIN, Job, News, Say
from bukva.cluster.origin import finished, push_result
from bukva.cluster.running import StoppedError, die_with_parent, run_dvc
from bukva.cluster.runs import fetch_runs, send_runs
from bukva.cluster.sender import sending
from bukva.cluster.slot import slot_for
from bukva.cluster.together import name_interface, own_rank, train_share
from bukva.core.errors import BukvaError, LostError
from bukva.core.processes import LOG, has_failed, start_detached
from bukva.tracking.sync import OWN_ATTEMPT

PUSH_SECONDS = 300.0  # for an origin to come back
LONGEST_PAUSE_SECONDS = 30.0
TAKE_OVER_SECONDS = 60.0

Answer = TypeVar("Answer")


def main() -> int:
    """Run the job of standard input; returns the exit status."""
    die_with_parent()
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
    except LostError as error:
        status, sentence = TRY_AGAIN, str(error)
    except BukvaError as error:
        status, sentence = FAILED, str(error)
    _say(News("end", {"text": sentence}))
    return status


def run(job: Job, say: Say) -> str:
    """Run a trial and push its result; returns a sentence.

    Raises:
        LostError: the origin, the remote or a machine of the same training does not answer.
        BukvaError: a stage failed.
        StoppedError: SIGTERM came; what was trained is saved.
    """
    name_interface()
    with slot_for(job) as slot:
        if not job.project:
            _keep_to_cores(slot.number, job.cores)
        if own_rank():
            return train_share(job, slot, say)
        os.environ[OWN_ATTEMPT] = str(job.attempt)
        os.environ["BUKVA_ROOT"] = str(slot.project)  # where journals, checkpoints and MLflow are
        os.chdir(slot.folder)  # DVC refuses to send from elsewhere
        if job.trial in _patiently(lambda: finished(slot.folder, job.origin, job.commit), say):
            return "the origin has its result already"
        carrier = None if job.project else _patiently(lambda: Carrier(job), say)
        if carrier:
            _take_over(_patiently(carrier.fetch, say), job, say)
            _patiently(lambda: fetch_runs(slot.project, job.commit), say)
        with sending(carrier, say) if carrier else contextlib.nullcontext():
            run_dvc(job, slot.folder, say, pull=bool(carrier))
        if carrier:  # the reference goes last: where it is, the experiment is complete
            _patiently(lambda: send_runs(slot.folder, job.commit, job.trial), say)
            _patiently(carrier.finish, say)
        _patiently(lambda: push_result(slot.folder, job.origin, job.commit, job.trial), say)
    return "finished"


def _take_over(journals: list[Path], job: Job, say: Say) -> None:
    """Let journals that came from a lost machine continue their runs in MLflow; without MLflow the training goes on."""
    for folder in journals:
        if has_failed(
            start_detached("bukva.cluster.losing", "take-over", str(folder), str(job.attempt)), TAKE_OVER_SECONDS
        ):
            text = f"MLflow did not hand over the run of {folder.name}, and may get some of its points twice"
            say(News("log", {"text": f"{text} (the reason is in {LOG})."}))


def _patiently(call: Callable[[], Answer], say: Say) -> Answer:
    """Call what needs the origin or the remote until it succeeds; a server may restart. Each failure is news.

    Raises:
        LostError: it has failed for PUSH_SECONDS.
    """
    return Retrying(
        retry=retry_if_exception_type(BukvaError),
        wait=wait_exponential(max=LONGEST_PAUSE_SECONDS),
        stop=stop_after_delay(PUSH_SECONDS),
        before_sleep=lambda state: say(News("log", {"text": f"{_error_of(state)} It is tried again."})),
        retry_error_callback=_give_up,
    )(call)


def _give_up(state: RetryCallState) -> NoReturn:
    raise LostError(str(_error_of(state))) from None


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


def _stop(_: int, __: FrameType | None) -> None:
    raise StoppedError


def _say(news: News) -> None:
    print(news.to_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
