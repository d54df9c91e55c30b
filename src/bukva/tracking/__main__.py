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

PAUSE_SECONDS = 1.0  # between two rounds; a stage waits as long for the last one


def live(journal: Journal) -> bool:
    """Keep MLflow up to date with the experiment of a training until that has ended.

    Each error is printed once; the last try is made when the stage has ended. Returns whether MLflow has everything.
    """
    store, printed = None, set[str]()
    while True:
        runs = journal.status()[0] == "RUNNING"  # before reading, so that the last round reads everything
        try:
            store = store or connect()
            troubles = fill(store, read_journals(journal.start["experiment"], journal.key))
        except Exception as error:
            store, troubles = None, [explain(error)]
        for trouble in set(troubles) - printed:
            with contextlib.suppress(OSError):  # the log may be on the disk that is full
                when, where = time.strftime("%Y-%m-%d %H:%M:%S"), redact_url(tracking_uri())
                remedy = "It is tried again while the stage runs; bukva sync completes it."
                print(f"{when} {where} lacks something of {journal.id}: {trouble.rstrip('.')}. {remedy}", flush=True)
        printed.update(troubles)
        if not runs:
            return not troubles
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of other packages; they are not for users
    try:
        if sys.argv[1] == "sync":
            print(sync())
        elif not (found := open_journal(Path(sys.argv[2]))) or not live(found):
            sys.exit(1)
    except BukvaError as error:
        sys.exit(str(error))
