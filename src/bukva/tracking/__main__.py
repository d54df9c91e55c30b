"""Processes that fill MLflow: python -m bukva.tracking sync, or live FOLDER beside a training."""

import contextlib
import sys
import time
import warnings
from pathlib import Path

from bukva.core.errors import BukvaError, redact_url
from bukva.tracking.journal import Journal, open_journal, read_journals
from bukva.tracking.store import connect, explain, tracking_uri
from bukva.tracking.sync import fill, sync

POLL_SECONDS = 0.2  # how often it looks for the end of the stage
PAUSE_SECONDS, AFTER_ERROR_SECONDS = 1.0, 10.0


def live(journal: Journal) -> bool:
    """Keep MLflow up to date with the experiment of a training until that has ended.

    Each error is printed once; the last try is made when the stage has ended. Returns whether MLflow has everything.
    """
    store, printed = None, set[str]()
    while True:
        runs = _runs(journal)  # before reading, so that the last round reads everything
        try:
            store = store or connect()
            troubles = fill(store, read_journals(journal.start["experiment"], journal.key))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in (trouble for trouble in troubles if trouble not in printed):
            with contextlib.suppress(OSError):  # the log may be on the disk that is full
                when, where = time.strftime("%Y-%m-%d %H:%M:%S"), redact_url(tracking_uri())
                remedy = "It is tried again while the stage runs; bukva sync completes it."
                print(f"{when} {where} lacks something of {journal.id}: {trouble.rstrip('.')}. {remedy}", flush=True)
        printed.update(troubles)
        if not runs:
            return not troubles
        until = time.monotonic() + (AFTER_ERROR_SECONDS if troubles else PAUSE_SECONDS)
        while time.monotonic() < until and _runs(journal):
            time.sleep(POLL_SECONDS)


def _runs(journal: Journal) -> bool:
    return journal.status()[0] == "RUNNING"


def main(command: str, folder: str = "") -> None:
    """Run one of the two commands; ends with 1 if MLflow lacks something."""
    if command == "sync":
        print(sync())
    elif not (journal := open_journal(Path(folder))) or not live(journal):
        sys.exit(1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of other packages; they are not for users
    try:
        main(*sys.argv[1:])
    except BukvaError as error:
        sys.exit(str(error))
