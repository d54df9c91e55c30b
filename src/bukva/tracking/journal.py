"""Journals: what a stage did, one event (JSON) per line, written while it runs and read while it grows.

    <project root>/.bukva/journal/<experiment>/<stage>-<NNN>/
        journal.jsonl    in order: start, then metrics, artifact, model, tags, at last end; every event has a time `at`,
                         in milliseconds since 1970. Only journals contain times, DVC's outputs contain none
        artifacts/       hard links to what the stage wrote
        code.zip         of a training: what runs its model (models.py)
    <project root>/.bukva/journal/<experiment>/notes-<key>/
                         the same for a whole experiment: what is said about it after its stages have ended

Artifacts are links because a queued experiment runs in a folder that DVC deletes; links are safe because bukva replaces
files and never writes into them. The process that writes a journal keeps its file locked. The system releases the lock
however the process ends, so a journal without a lock and without an end belongs to a killed process.
"""

import contextlib
import fcntl
import getpass
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from filelock import FileLock

from bukva.config.schema import Params
from bukva.core.errors import sentence_for
from bukva.core.files import atomic_file, project_root, write_text
from bukva.core.processes import LOG, has_failed, leave_running, sigterm_raises, start_detached
from bukva.project.stages import stages
from bukva.tracking.experiment import Experiment, datasets, this_experiment
from bukva.tracking.models import CODE, requirements, write_code

Event = dict[str, Any]

FILE = "journal.jsonl"
MODELS = "model"  # the folder of artifacts that has the models
TAIL_BYTES = 16384  # enough for the longest end event
NOTE_CHARS = 1000  # keeps it shorter
LOCK_SECONDS = 10
WAIT_SECONDS = 10  # for MLflow, before a stage ends and leaves alone the process that fills it
REMEDY = f"bukva sync completes it (the reason is in {LOG})."


# ---- reading


@dataclass(frozen=True)
class Journal:
    """One journal: its folder and its start event."""

    folder: Path
    start: Event

    @property
    def id(self) -> str:
        """Unique among all journals of all machines."""
        return str(self.start["id"])

    @property
    def key(self) -> str:
        """The key of its experiment."""
        return str(self.start["key"])

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.stat().st_size

    def read(self, offset: int = 0) -> tuple[list[Event], int]:
        """The complete events from byte `offset` on, and the offset behind the last of them."""
        with self._file.open("rb") as file:
            file.seek(offset)
            new = file.read()
        complete = new[: new.rfind(b"\n") + 1]  # a line without an end is still being written
        return list(filter(None, map(_parse, complete.splitlines()))), offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """RUNNING and None, or how the execution ended and when, in milliseconds since 1970."""
        with self._file.open("rb") as file:
            abandoned = _is_unlocked(file.fileno())  # before looking for the end: an unlocked file does not grow
            file.seek(max(0, self.size - TAIL_BYTES))
            last = _parse(file.read().rstrip().rpartition(b"\n")[2])
        if last and last["record"] == "end":
            return str(last["status"]), int(last["at"])
        return ("KILLED", self._file.stat().st_mtime_ns // 1_000_000) if abandoned else ("RUNNING", None)

    @property
    def _file(self) -> Path:
        return self.folder / FILE


def journals_root() -> Path:
    """The folder of all journals: in the original repository, also when a stage runs in a snapshot."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*") -> list[Journal]:
    """The journals of all stages, or of those of one experiment, in the order in which they began."""
    journals = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    found = [journal for journal in journals if journal and journal.start["kind"] != "experiment"]
    return sorted(found, key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """The journal in a folder; None if its first line is incomplete because its process was killed at once."""
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
    except FileNotFoundError:
        return None
    return Journal(folder, start) if start and start["record"] == "start" else None


def notes_on(experiment: str, key: str) -> Journal | None:
    """What was said about a whole experiment; None if nothing was."""
    return open_journal(journals_root() / experiment / f"notes-{key}")


def _parse(line: bytes) -> Event | None:
    """The event of a line; None for a line that a full disk or a power cut left incomplete."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "record" in event else None


def _is_unlocked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


# ---- writing


class Log:
    """Writes one journal. A full or read-only disk loses events for MLflow, but never stops a stage.

    A training that was interrupted continues its journal, so that MLflow shows one run and each point once; in another
    experiment (`dvc exp run` gives a new name each time) a new journal begins with what the former one has.

    Args:
        restored: whether DVC restored the outputs, and no stage ran.
        silent: write nothing, because another process keeps the journal of this stage.
        training_id: identifies a training.
        resumes: whether that training resumes from a checkpoint.
    """

    def __init__(
        self,
        stage: str,
        params: Params,
        *,
        restored: bool = False,
        silent: bool = False,
        training_id: str = "",
        resumes: bool = False,
    ) -> None:
        self.stage = stage
        self.folder: Path | None = None
        self.seconds_before = 0.0  # that the execution ran before it was interrupted
        self._file: FileIO | None = None
        self._reported = False
        self._points: set[tuple[str, int]] = set()  # name and step of those that the journal already has
        if silent:
            return
        with self._errors_reported():
            experiment = this_experiment(params)
            start = {
                "stage": stage,
                "kind": stages()[stage].kind,
                "sections": stages()[stage].sections,
                "restored": restored,
                "training_id": training_id,
                "datasets": datasets(stages()[stage].kind, params),
                "user": _user(),
            }
            before = _interrupted(experiment, stage, training_id, resumes) if training_id else None
            if before and before.key == experiment.key:
                self._open(before.folder)
            else:
                self._begin(experiment, start, before.start["at"] if before else _now())
                if before:
                    self._copy(before)
            if before:
                self._resume(before.read()[0])

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Numbers at a step; those that the journal had before an interruption keep their time."""
        new = {name: float(value) for name, value in values.items() if (name, step) not in self._points}
        if new:
            self._write("metrics", step=step, values=new)

    def artifact(self, path: Path, folder: str = "") -> None:
        """A file, or a folder with all its content, kept below `folder`; a later one of the same name replaces it."""
        with self._errors_reported():
            if self.folder:
                name = Path(folder) / path.name
                _link(path, self.folder / "artifacts" / name)
                self._write("artifact", path=name.as_posix(), source=path.as_posix())

    def text(self, name: str, content: str) -> None:
        """A text file that no stage writes elsewhere; a later one of the same name replaces it."""
        with self._errors_reported():
            if self.folder:
                write_text(self.folder / "artifacts" / name, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """The folder of a trained model, with the code and the list of packages that run it elsewhere."""
        self.artifact(folder, MODELS)
        with self._errors_reported():
            if self.folder:
                with atomic_file(self.folder / CODE) as unfinished:
                    write_code(unfinished)
                path = (Path(MODELS) / folder.name).as_posix()
                self._write("model", name=name, path=path, requirements=requirements())

    def end(self, status: str, note: str = "") -> None:
        """The last event: FINISHED, FAILED or KILLED, and why."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

    def _begin(self, experiment: Experiment, start: Event, at: int) -> None:
        folder = _new_folder(experiment.name, self.stage)
        self._open(folder)
        assert self._file
        name = f"{experiment.name}/{folder.name}/{uuid.uuid4().hex}"
        self._file.write(_line("start", at, id=name, **experiment.fields(), **start))

    def _open(self, folder: Path) -> None:
        self.folder, self._file = folder, (folder / FILE).open("ab", buffering=0)
        with contextlib.suppress(OSError):  # a file system without locks: readers cannot lock it either, see RUNNING
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _copy(self, before: Journal) -> None:
        """What the journal of another experiment has; its model and its end are its own."""
        assert self.folder
        assert self._file
        if (before.folder / "artifacts").exists():
            _link(before.folder / "artifacts", self.folder / "artifacts")
        for event in before.read()[0]:
            if event["record"] not in ("start", "model", "end"):
                self._file.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")

    def _resume(self, events: list[Event]) -> None:
        assert self._file
        began = last = 0
        for event in events:
            if event["record"] == "metrics":
                self._points |= {(name, event["step"]) for name in event["values"]}
            if event["record"] in ("start", "resumed"):
                self.seconds_before += (last - began) / 1000
                began = event["at"]
            last = event["at"]
        self.seconds_before += (last - began) / 1000
        self._file.write(b"\n")  # ends an incomplete line that a killed process left; the line is then ignored
        self._write("resumed")

    def _write(self, record: str, **content: Any) -> None:
        with self._errors_reported():
            if self._file:
                self._file.write(_line(record, _now(), **content))

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        """Print the first error of the disk and ignore the others."""
        try:
            yield
        except OSError as error:
            if not self._reported:
                print(f"MLflow will lack something of {self.stage}: its journal failed, {error}.", file=sys.stderr)
            self._reported = True


def note(experiment: str, tags: Mapping[str, str], files: Mapping[str, bytes], key: str = "") -> bool:
    """Keep tags and artifacts for MLflow's run of a whole experiment; an equal name replaces the former.

    Fills no MLflow: start_sync does. An error of the disk is printed and not raised.

    Args:
        experiment: its name.
        tags: texts by name.
        files: contents by name.
        key: tells experiments of one name apart (experiment.py); without it, the one that began last is meant.

    Returns:
        Whether they are kept; False if no stage of this experiment has a journal here.
    """
    try:
        known = [journal for journal in read_journals(experiment) if not key or journal.key == key]
        if known:
            _add_notes(known[-1], tags, files)
        return bool(known)
    except (OSError, KeyError, ValueError) as error:
        print(f"MLflow will lack a note on {experiment}: it cannot be kept, {error}.", file=sys.stderr)
        return False


def _add_notes(stage: Journal, tags: Mapping[str, str], files: Mapping[str, bytes]) -> None:
    folder = stage.folder.parent / f"notes-{stage.key}"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / ".lock", timeout=LOCK_SECONDS), (folder / FILE).open("ab") as file:
        notes = open_journal(folder)
        if notes is None:
            start = stage.start | {"id": f"{folder.parent.name}/{folder.name}", "kind": "experiment"}
            file.write(json.dumps(start, ensure_ascii=False).encode() + b"\n")
        kept: dict[str, str] = {}
        for event in notes.read()[0] if notes else ():
            kept |= event["values"] if event["record"] == "tags" else {}
        if new := {name: text for name, text in tags.items() if kept.get(name) != text}:
            file.write(_line("tags", _now(), values=new))
        for name, content in files.items():
            path = folder / "artifacts" / name
            if not path.exists() or path.read_bytes() != content:
                with atomic_file(path) as unfinished:
                    unfinished.write_bytes(content)
                file.write(_line("artifact", _now(), path=name, source=""))


def _interrupted(experiment: Experiment, stage: str, training_id: str, resumes: bool) -> Journal | None:
    """The last journal of a training that can continue.

    That is one that was killed; in the same experiment also one that failed, on a full disk for example; and if there
    is a checkpoint, also one that finished, because it was then killed before DVC recorded its outputs.
    """
    for journal in reversed(read_journals()):
        if (journal.start["stage"], journal.start.get("training_id")) == (stage, training_id):
            status, is_ours = journal.status()[0], journal.key == experiment.key
            if status == "KILLED" or (status == "FAILED" and is_ours) or (status == "FINISHED" and resumes):
                return journal
    return None


def _new_folder(experiment: str, stage: str) -> Path:
    """A new folder for a journal; of several processes that try the same number, mkdir succeeds in one."""
    parent = journals_root() / experiment
    parent.mkdir(parents=True, exist_ok=True)
    number = len(list(parent.glob(f"{stage}-*")))
    while True:
        number += 1
        with contextlib.suppress(FileExistsError):
            folder = parent / f"{stage}-{number:03d}"
            folder.mkdir()
            return folder


def _line(record: str, at: int, **content: Any) -> bytes:
    return json.dumps({"record": record, "at": at, **content}, ensure_ascii=False).encode() + b"\n"


def _now() -> int:
    """Milliseconds since 1970, which is how MLflow counts."""
    return time.time_ns() // 1_000_000


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return str(os.getuid())


def _link(path: Path, kept: Path) -> None:
    """Hard links below `kept` to a file or to all files of a folder; copies where links are impossible."""
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            _link(entry, kept / entry.name)
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), kept)  # resolved: DVC can be configured to put symbolic links in the workspace
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, kept)


# ---- the journal of a stage, and the process beside it


@contextlib.contextmanager
def journal(
    stage: str, params: Params, *, silent: bool = False, training_id: str = "", resumes: bool = False
) -> Iterator[Log]:
    """Keep the journal of a stage: FINISHED when the block ends well, FAILED or KILLED when it does not.

    SIGTERM raises SystemExit in the block, so that it can save what it has. A process beside a training fills MLflow
    from its start; for other stages it starts only if they fail, because importing mlflow takes longer than they do,
    and stage publish shows them. The arguments are those of Log.
    """
    log, started_at = Log(stage, params, silent=silent, training_id=training_id, resumes=resumes), time.perf_counter()
    beside = _start_beside(log) if stages()[stage].kind == "training" else None
    status, why = "FINISHED", ""
    try:
        with sigterm_raises():
            yield log
    except BaseException as error:
        status, why = _status_after(error)
        raise
    finally:
        if status != "KILLED":  # an interrupted training may continue: its time is not yet known
            log.metrics({"seconds": round(log.seconds_before + time.perf_counter() - started_at, 3)})
        log.end(status, why)
        if status != "FINISHED":
            beside = beside or _start_beside(log)
        if beside and has_failed(beside, WAIT_SECONDS):
            print(f"MLflow does not have all of {stage}; {REMEDY}", file=sys.stderr)


def start_sync() -> None:
    """Start to bring MLflow up to date, and do not wait. Never raises: `bukva sync` completes what fails."""
    with contextlib.suppress(OSError):
        leave_running(start_detached("bukva.tracking", "sync"))


def _start_beside(log: Log) -> subprocess.Popen[bytes] | None:
    if log.folder is None:
        return None
    try:
        return start_detached("bukva.tracking", "live", str(log.folder))
    except OSError as error:
        print(f"MLflow does not show {log.stage} ({error}); bukva sync completes it.", file=sys.stderr)
        return None


def _status_after(error: BaseException) -> tuple[str, str]:
    match error:
        case KeyboardInterrupt() | SystemExit(code=130 | 143):  # the codes of shells for Ctrl-C and SIGTERM
            return "KILLED", "Interrupted."
        case SystemExit(code=None | 0):
            return "FINISHED", ""
        case _:
            return "FAILED", sentence_for(error) or f"{type(error).__name__}: {error}"
