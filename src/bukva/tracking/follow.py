"""Fills MLflow from a journal while its stage runs."""

import contextlib
import os
import threading
import time
from pathlib import Path

from bukva.core.redact import redact_url
from bukva.tracking.address import explain, tracking_uri
from bukva.tracking.reading import Journal, open_journal, read_journals
from bukva.tracking.sync import View, open_store

END_POLL_SECONDS = 0.2  # how often it looks for the end of the stage
PUSH_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
GRACE_SECONDS = 120.0


def follow(folder: Path) -> bool:
    """Keep MLflow up to date until the stage has ended, with the earlier stages of its experiment too.

    Each error is printed once. After an error the next try comes later, up to LONGEST_PAUSE_SECONDS, and the last one
    when the stage has ended; an error of the store after the end is final.

    Returns:
        Whether MLflow has everything.
    """
    journal = open_journal(folder)
    if journal is None:
        return False
    threading.Thread(target=_exit_after_grace, args=(journal,), daemon=True).start()
    view, pause, printed = None, PUSH_SECONDS, set[str]()
    while True:
        over = _is_over(journal)  # before reading, so that the last round reads everything
        try:
            view = view or View(open_store())
            troubles = view.update(_same_experiment(journal))
        except Exception as error:
            view, troubles = None, [explain(error)]  # answers may be lost, so the next view reads the store again
            over = _is_over(journal)
        for trouble in filter(lambda trouble: trouble not in printed, troubles):
            _print_trouble(journal, trouble)
        printed.update(troubles)
        if over:
            return not troubles
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS) if troubles else PUSH_SECONDS
        _sleep(journal, pause)


def _print_trouble(journal: Journal, trouble: str) -> None:
    """One line for the log: when, where, what is missing, why, and what to do."""
    when, where = time.strftime("%Y-%m-%d %H:%M:%S"), redact_url(tracking_uri())
    what = journal.id.rpartition("/")[0]
    remedy = "It is tried again while the stage runs; bukva sync completes it."
    with contextlib.suppress(OSError):  # the log may be on the disk that is full
        print(f"{when} {where} lacks something of {what}: {trouble.rstrip('.')}. {remedy}", flush=True)


def _same_experiment(journal: Journal) -> list[Journal]:
    return [other for other in read_journals(journal.start["experiment"]) if other.key == journal.key]


def _is_over(journal: Journal) -> bool:
    return journal.status()[0] != "RUNNING"


def _sleep(journal: Journal, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not _is_over(journal):
        time.sleep(END_POLL_SECONDS)


def _exit_after_grace(journal: Journal) -> None:
    """End this process some time after the stage, also when a call hangs that cannot be interrupted."""
    while not _is_over(journal):
        time.sleep(PUSH_SECONDS)
    time.sleep(GRACE_SECONDS)
    os._exit(1)
