"""Processes that fill MLflow: python -m bukva.tracking sync, or live FOLDER beside a training."""

import contextlib
import sys
import time
import warnings
from pathlib import Path

from bukva.core.errors import BukvaError, redact_url
from bukva.tracking.journal import Journal, open_journal, read_journals
from bukva.tracking.sync import connect, errors_in_one_line, explain, fill, sync, tracking_uri

POLL_SECONDS = 0.2  # how often it looks for the end of the stage
PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


def live(folder: Path) -> bool:
    """Keep MLflow up to date from the journal of a training until it has ended; first with all other journals too.

    Each error is printed once. After an error the next try comes later, up to LONGEST_PAUSE_SECONDS, and the last one
    when the stage has ended; an error of the store after the end is final.

    Returns:
        Whether MLflow has everything.
    """
    journal, store, journals, pause, printed = open_journal(folder), None, read_journals(), PAUSE_SECONDS, set[str]()
    if journal is None:
        return False
    while True:
        over = _is_over(journal)  # before reading, so that the last round reads everything
        try:
            store = store or connect()
            troubles = fill(store, journals)
            journals = [other for other in read_journals(journal.start["experiment"]) if other.key == journal.key]
        except Exception as error:
            store, troubles = None, [explain(error)]
            over = _is_over(journal)
        for trouble in filter(lambda trouble: trouble not in printed, troubles):
            _print_trouble(journal, trouble)
        printed.update(troubles)
        if over:
            return not troubles
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS) if troubles else PAUSE_SECONDS
        until = time.monotonic() + pause
        while time.monotonic() < until and not _is_over(journal):
            time.sleep(POLL_SECONDS)


def _is_over(journal: Journal) -> bool:
    return journal.status()[0] != "RUNNING"


def _print_trouble(journal: Journal, trouble: str) -> None:
    """One line for the log: when, where, what is missing, why, and what to do."""
    when, where = time.strftime("%Y-%m-%d %H:%M:%S"), redact_url(tracking_uri())
    what = journal.id.rpartition("/")[0]
    remedy = "It is tried again while the stage runs; bukva sync completes it."
    with contextlib.suppress(OSError):  # the log may be on the disk that is full
        print(f"{when} {where} lacks something of {what}: {trouble.rstrip('.')}. {remedy}", flush=True)


def main(command: str, folder: str = "") -> None:
    """Run one of the two commands; ends with 1 if MLflow lacks something."""
    if command == "sync":
        print(sync())
        return
    with errors_in_one_line():
        complete = live(Path(folder))
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of other packages; they are not for users
    try:
        main(*sys.argv[1:])
    except BukvaError as error:
        sys.exit(str(error))
