"""The journal of a stage, kept while it runs."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

from bukva.config.schema import Params
from bukva.core.errors import sentence_for
from bukva.project.stages import stages
from bukva.tracking import background
from bukva.tracking.reading import read_journals
from bukva.tracking.writing import Log

WAIT_SECONDS = 10  # for MLflow, before a stage ends and leaves alone the process that fills it


@contextlib.contextmanager
def journal(
    stage: str, params: Params, *, silent: bool = False, training_id: str = "", resumes: bool = False
) -> Iterator[Log]:
    """Keep the journal of a stage: FINISHED when the block ends well, FAILED or KILLED when it does not.

    SIGTERM raises SystemExit in the block, so that it can save what it has. A process follows a training from its start
    and fills MLflow; for other stages it starts only if they fail, because importing mlflow takes longer than they do,
    and stage publish shows them. The journals of stages that were killed are closed now.

    Args:
        stage: its name.
        params: all of params.yaml.
        silent: keep nothing, because another process keeps the journal of this stage.
        training_id: identifies a training; if it was interrupted, its journal and its run in MLflow continue.
        resumes: whether that training resumes from a checkpoint.
    """
    log, started_at = Log(stage, params, silent=silent, training_id=training_id, resumes=resumes), time.perf_counter()
    if not silent:
        close_killed_journals()
    follower = _follow(log) if stages()[stage].kind == "training" else None
    status, note = "FINISHED", ""
    try:
        with _sigterm_raises():
            yield log
    except BaseException as error:
        status, note = _status_after(error)
        raise
    finally:
        if status != "KILLED":  # an interrupted training may continue: its time is not yet known
            log.metrics({"seconds": round(log.seconds_before + time.perf_counter() - started_at, 3)})
        log.end(status, note)
        if status != "FINISHED":
            follower = follower or _follow(log)
        if follower and background.has_failed(follower, WAIT_SECONDS):
            print(f"MLflow does not have all of {stage}; {background.REMEDY}", file=sys.stderr)


def close_killed_journals() -> None:
    """Close the journals of killed processes, and update MLflow: their followers may have been killed too."""
    with contextlib.suppress(OSError):
        killed = [journal for journal in read_journals() if journal.close_if_killed()]
        background.start_sync({journal.start["experiment"] for journal in killed})


def _follow(log: Log) -> subprocess.Popen[bytes] | None:
    """Start the process that fills MLflow from this journal until the stage ends (follow.py)."""
    if log.folder is None:
        return None
    try:
        return background.start("follow", str(log.folder))
    except OSError as error:
        print(f"MLflow does not follow {log.stage} ({error}); bukva sync completes it.", file=sys.stderr)
        return None


def _status_after(error: BaseException) -> tuple[str, str]:
    match error:
        case KeyboardInterrupt() | SystemExit(code=130 | 143):  # the codes of shells for Ctrl-C and SIGTERM
            return "KILLED", "Interrupted."
        case SystemExit(code=None | 0):
            return "FINISHED", ""
        case _:
            return "FAILED", sentence_for(error) or f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python catches signals only there
        yield
        return

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
