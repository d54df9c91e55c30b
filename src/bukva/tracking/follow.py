"""MLflow beside a stage that runs: what its journal gets, MLflow gets a moment later."""

import contextlib
import os
import threading
import time
from pathlib import Path

from bukva.base.redact import redact_url
from bukva.tracking.records import Journal, open_journal, read_journals
from bukva.tracking.store import connect, explain, tracking_uri
from bukva.tracking.sync import View

POLL_SECONDS = 0.2
PUSH_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
GRACE_SECONDS = 120.0


def follow(folder: Path) -> bool:
    """Keep MLflow up to date until the stage has ended, with the earlier stages of its experiment too.

    A store in trouble is told once in the log, and tried again, ever more rarely, and once more at the end.
    Returns whether it has all.
    """
    journal = open_journal(folder)
    if journal is None:
        return False
    threading.Thread(target=_leave_in_time, args=(journal,), daemon=True).start()
    view, pause, told = None, PUSH_SECONDS, set[str]()
    while True:
        over = _is_over(journal)  # asked first, so that the last round gets everything
        try:
            view = view or View(connect())
            troubles = view.update(_same_experiment(journal))
        except Exception as error:
            view, troubles = None, [explain(error)]  # what the store has is asked anew: answers may be lost
        for trouble in filter(lambda trouble: trouble not in told, troubles):
            _tell(journal, trouble)
        told.update(troubles)
        if over:
            return not troubles
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS) if troubles else PUSH_SECONDS
        _sleep(journal, pause)


def _tell(journal: Journal, trouble: str) -> None:
    """One line for the log: when, where, what is missing, why, and what would do."""
    when, where = time.strftime("%Y-%m-%d %H:%M:%S"), redact_url(tracking_uri())
    what = journal.id.rpartition("/")[0]
    remedy = "It is tried again while the stage runs; make sync completes it."
    with contextlib.suppress(OSError):  # the log may lie on the very disk that is full
        print(f"{when} {where} lacks something of {what}: {trouble.rstrip('.')}. {remedy}", flush=True)


def _same_experiment(journal: Journal) -> list[Journal]:
    return [other for other in read_journals(journal.start["experiment"]) if other.key == journal.key]


def _is_over(journal: Journal) -> bool:
    return journal.status()[0] != "RUNNING"


def _sleep(journal: Journal, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not _is_over(journal):
        time.sleep(POLL_SECONDS)


def _leave_in_time(journal: Journal) -> None:
    """End this process some time after the stage, even when a call hangs that nothing can interrupt."""
    while not _is_over(journal):
        time.sleep(PUSH_SECONDS)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
