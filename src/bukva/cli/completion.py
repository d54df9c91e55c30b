"""MLflow after a DVC that has run stages, but not stage publish: python -m bukva.cli.completion [NOTE].

DVC skips publish where its inputs are those of dvc.lock, and they are in a fresh clone that has just made them again.
So the first stage that a DVC runs leaves a note and a process that waits for that DVC. Stage publish removes the note.
If it is still there when DVC has ended, the process does what publish would have done. Without NOTE, that is done for
each DVC that has ended, for example because the machine was switched off; `bukva sync` and `bukva ui` do that first.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

import psutil
from filelock import FileLock

from bukva.config.load import read_params
from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json
from bukva.core.processes import dvc
from bukva.project.lock import LOCK, recorded
from bukva.tracking import background
from bukva.tracking.experiment import BASELINE, NAME, this_experiment
from bukva.tracking.publish import publish
from bukva.tracking.reading import journals_root, read_journals
from bukva.tracking.records import FILE

NOTES = Path(".bukva/unpublished")  # in the original repository
POLL_SECONDS = 1.0


def publish_experiment(params: Params) -> None:
    """Bring MLflow up to date with this experiment; what is missing there is reported, and never an error."""
    from bukva.compare.groups import seed_group_tags
    from bukva.report.summary import summary

    publish(params, seed_group_tags("gpt"), summary)


def leave_note() -> None:
    """Let a process complete MLflow if the DVC that runs this stage ends without stage publish. Never raises."""
    with contextlib.suppress(OSError, psutil.Error):  # a full disk: `dvc repro` goes on, and `bukva sync` fills MLflow
        if (note := _own_note()) and not note.exists():
            variables = {name: os.environ[name] for name in (NAME, BASELINE) if name in os.environ}
            write_json(note, {"folder": str(Path.cwd()), "variables": variables})
            background.start(str(note), module="bukva.cli.completion")


def remove_note() -> None:
    """Stage publish has run."""
    with contextlib.suppress(OSError, psutil.Error):
        if note := _own_note():
            note.unlink(missing_ok=True)


def complete(note: Path) -> None:
    """Wait for the end of the DVC that a note is about; if the note is still there, complete MLflow."""
    while note.exists() and _is_running(note):
        time.sleep(POLL_SECONDS)
    with FileLock(project_root() / NOTES / "lock"):
        if note.exists():
            if _is_news(note):
                _complete(**read_json(note))
            note.unlink(missing_ok=True)


def complete_ended() -> None:
    """Do for each DVC that has ended what its publish would have done."""
    if any((project_root() / NOTES).glob("*.json")):
        # a process of its own, because it enters the folders and takes the variables of those DVCs
        background.start(module="bukva.cli.completion").wait()


def _is_news(note: Path) -> bool:
    """Whether a stage has kept a journal since the note was left; a mistake in params.yaml ends one before that."""
    since = note.stat().st_mtime
    return any(file.stat().st_mtime >= since for file in journals_root().glob(f"*/*/{FILE}"))


def _complete(folder: str, variables: dict[str, str]) -> None:
    if Path(folder).is_dir():  # else a snapshot, which DVC has deleted
        os.chdir(folder)
        for name in (NAME, BASELINE):
            os.environ.pop(name, None)
        os.environ.update(variables)
        if has_skipped_publish():
            publish_experiment(read_params())
    background.start("sync").wait()  # also stages that failed, or whose results are not published yet


def has_skipped_publish() -> bool:
    """Whether the stages of this experiment have ended well, with the results that DVC has published before."""
    try:
        stages, key = recorded(LOCK.read_text(encoding="utf-8")), this_experiment(read_params()).key
        made = {out["path"]: out["md5"] for entry in stages.values() for out in entry.get("outs", [])}
        published = all(made.get(dep["path"]) == dep["md5"] for dep in stages["publish"]["deps"])
    except (OSError, BukvaError, ValueError, KeyError):  # somebody edits params.yaml, or DVC runs again
        return False
    last = {journal.start["stage"]: journal.status()[0] for journal in read_journals() if journal.key == key}
    return published and set(last.values()) == {"FINISHED"}


def _own_note() -> Path | None:
    """The note about the DVC that runs this stage; None without a DVC."""
    parent = dvc()
    return project_root() / NOTES / f"{parent.pid}-{parent.create_time():.0f}.json" if parent else None


def _is_running(note: Path) -> bool:
    pid, _, created = note.stem.partition("-")
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(int(pid))
        return f"{process.create_time():.0f}" == created and process.status() != psutil.STATUS_ZOMBIE
    return False


def main() -> None:
    """Complete what the notes name on the command line, or all whose DVC has ended."""
    os.environ.pop("DVC_STAGE", None)  # this process is no stage
    os.environ["DVC_ROOT"] = str(project_root())  # whatever folder it enters
    notes = map(Path, sys.argv[1:]) if sys.argv[1:] else (project_root() / NOTES).glob("*.json")
    for note in notes:
        if sys.argv[1:] or not _is_running(note):
            complete(note)


if __name__ == "__main__":
    main()
