"""Journals: what a stage did, one event (JSON) per line, written while it runs and read while it grows.

    <project root>/.bukva/journal/<experiment>/<stage>-<8 digits>/
        journal.jsonl    in order: start, then metrics, artifact, model, at last end; every event has a time `at`, in
                         milliseconds since 1970. Only journals contain times, DVC's outputs contain none
        artifacts/       hard links to what the stage wrote
        code.zip         of a training: bukva, which runs its model without the repository
    <project root>/.bukva/journal/<experiment>/notes-<key>/
        tags.json, artifacts/    what is said about a whole experiment after its stages have ended

Artifacts are links because a queued experiment runs in a folder that DVC deletes; links are safe because bukva replaces
files and never writes into them. The process that writes a journal keeps its file locked. The system releases the lock
however the process ends, so a journal without a lock and without an end belongs to a killed process.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock

from bukva.config.schema import Params
from bukva.core.errors import sentence_for
from bukva.core.files import atomic_file, project_root, read_json, write_json, write_text
from bukva.core.processes import LOG, has_failed, leave_running, sigterm_raises, start_detached
from bukva.project.stages import stages
from bukva.tracking.experiment import datasets, this_experiment

Event = dict[str, Any]

FILE, ARTIFACTS, TAGS, CODE = "journal.jsonl", "artifacts", "tags.json", "code.zip"
NOTE_CHARS = 1000  # of an end event
PACKAGE = Path(__file__).parents[1]  # bukva, beside the code that runs, also in the snapshot of an experiment
# packages that serving/pyfunc.py imports; MLflow adds what it needs itself
DISTRIBUTIONS = (
    "jinja2", "mlflow", "numba", "numpy", "pandas", "pydantic", "pyyaml", "ruamel.yaml", "safetensors", "tokenizers",
    "torch",
)  # fmt: skip
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
    def notes(self) -> Path:
        """The folder of what is said about its experiment; it may not exist."""
        return self.folder.parent / f"notes-{self.key}"

    def read(self, offset: int = 0) -> tuple[list[Event], int]:
        """The complete events from byte `offset` on, and the offset behind the last of them."""
        new = (self.folder / FILE).read_bytes()[offset:]
        complete = new[: new.rfind(b"\n") + 1]  # a line without an end is still being written
        return list(filter(None, map(_parse, complete.splitlines()))), offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """RUNNING and None, or how the execution ended and when, in milliseconds since 1970."""
        with (self.folder / FILE).open("rb") as file:
            try:  # before looking for the end: an unlocked file does not grow
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                abandoned = True
            except OSError:
                abandoned = False
            last = _parse(file.read().rstrip().rpartition(b"\n")[2])
            if last and last["record"] == "end":
                return str(last["status"]), int(last["at"])
            return ("KILLED", os.fstat(file.fileno()).st_mtime_ns // 1_000_000) if abandoned else ("RUNNING", None)


def journals_root() -> Path:
    """The folder of all journals: in the original repository, also when a stage runs in a snapshot."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*", key: str = "") -> list[Journal]:
    """The journals of all stages, or of those of one experiment (a name, or also its key), in order of their starts."""
    found = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    kept = [journal for journal in found if journal and key in ("", journal.key)]
    return sorted(kept, key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """The journal in a folder; None if its first line is incomplete because its process was killed at once."""
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
    except FileNotFoundError:
        return None
    return Journal(folder, start) if start and start["record"] == "start" else None


def _parse(line: bytes) -> Any:
    """The event of a line; None for a line that a full disk or a power cut left incomplete."""
    try:
        return json.loads(line)
    except ValueError:
        return None


# ---- writing


class Log:
    """Writes one journal. A full or read-only disk loses events for MLflow, but never stops a stage.

    A training that was interrupted continues its journal, so that MLflow shows one run and each point once; in another
    experiment (`dvc exp run` gives a new name each time) it begins a new one, and logs its former points again.

    restored: DVC restored the outputs, and no stage ran.
    silent: write nothing, because another process keeps the journal of this stage.
    training_id, resumes: identifies a training; whether it resumes from a checkpoint.
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
            start = _start(stage, params, restored, training_id)
            before = _interrupted(stage, training_id, resumes) if training_id else None
            events = before.read()[0] if before else []
            if before and before.key == start["key"]:
                self._open(before.folder)
                self._points = {(name, event["step"]) for event in events for name in event.get("values", ())}
            else:
                self._open(journals_root() / start["id"])
                self._write(**start)
            if events:
                began = [event for event in events if event["record"] in ("start", "resumed")][-1]
                seconds = (max(event["at"] for event in events) - began["at"]) / 1000
                self.seconds_before = began.get("seconds", 0.0) + seconds
                self._write("resumed", seconds=self.seconds_before)

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Numbers at a step; those that the journal had before an interruption keep their time."""
        new = {name: float(value) for name, value in values.items() if (name, step) not in self._points}
        if new:
            self._write("metrics", step=step, values=new)

    def artifact(self, path: Path) -> None:
        """A file, or a folder with all its content; a later one of the same name replaces it."""
        self._keep("artifact", path)

    def text(self, name: str, content: str) -> None:
        """A text file that no stage writes elsewhere; a later one of the same name replaces it."""
        with self._errors_reported():
            if self.folder:
                write_text(self.folder / ARTIFACTS / name, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """The folder of a trained model, with the code and the list of packages that run it elsewhere."""
        with self._errors_reported():
            if self.folder:
                _pack_code(self.folder / CODE)
                self._keep("model", folder, name=name, requirements=requirements())

    def end(self, status: str, note: str = "") -> None:
        """The last event: FINISHED, FAILED or KILLED, and why."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

    def _open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._file = folder, (folder / FILE).open("ab", buffering=0)
        with contextlib.suppress(OSError):  # a file system without locks: readers cannot lock it either, see RUNNING
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if self._file.tell():
            self._file.write(b"\n")  # ends an incomplete line that a killed process left; the line is then ignored

    def _keep(self, record: str, path: Path, **content: Any) -> None:
        with self._errors_reported():
            if self.folder:
                kept = self.folder / ARTIFACTS / path.name
                kept.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, kept, copy_function=_link, dirs_exist_ok=True)
                else:
                    _link(path, kept)
                self._write(record, path=path.name, source=path.as_posix(), **content)

    def _write(self, record: str, **content: Any) -> None:
        with self._errors_reported():
            if self._file:
                event = {"record": record, "at": time.time_ns() // 1_000_000, **content}
                self._file.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")

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
    """Keep tags and artifacts, by name, for MLflow's run of a whole experiment; start_sync brings them there.

    Without the key, of the experiments of this name the one that began last is meant. Returns whether they are kept:
    False if no stage of it has a journal here. An error of the disk is printed and not raised.
    """
    try:
        journals = read_journals(experiment, key)
        if journals:
            folder = journals[-1].notes
            (folder / ARTIFACTS).mkdir(parents=True, exist_ok=True)
            with FileLock(folder / ".lock", timeout=LOCK_SECONDS):
                kept = read_json(folder / TAGS) if (folder / TAGS).exists() else {}
                write_json(folder / TAGS, {**kept, **tags})
                for name, content in files.items():
                    with atomic_file(folder / ARTIFACTS / name) as unfinished:
                        unfinished.write_bytes(content)
        return bool(journals)
    except (OSError, KeyError, ValueError) as error:
        print(f"MLflow will lack a note on {experiment}: it cannot be kept, {error}.", file=sys.stderr)
        return False


def _start(stage: str, params: Params, restored: bool, training_id: str) -> Event:
    experiment, spec = this_experiment(params), stages()[stage]
    return {
        "record": "start",
        "id": f"{experiment.name}/{stage}-{uuid.uuid4().hex[:8]}",  # unique among all journals of all machines
        "experiment": experiment.name,
        "label": experiment.label,
        "changed": experiment.changed,
        "key": experiment.key,
        "commit": experiment.commit,
        "params": experiment.params,
        "stage": stage,
        "kind": spec.kind,
        "sections": spec.sections,
        "restored": restored,
        "training_id": training_id,
        "datasets": datasets(spec.kind, params),
        "user": psutil.Process().username(),
    }


def _interrupted(stage: str, training_id: str, resumes: bool) -> Journal | None:
    """The last journal of a training that was killed or failed; with a checkpoint, also of one that finished.

    That one was killed before DVC recorded its outputs.
    """
    for journal in reversed(read_journals()):
        if (journal.start["stage"], journal.start.get("training_id")) == (stage, training_id):
            status = journal.status()[0]
            if status in ("KILLED", "FAILED") or (status == "FINISHED" and resumes):
                return journal
    return None


def requirements() -> list[str]:
    """The packages at the versions of this environment, without what only this machine can install (2.13.0+cpu)."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def _pack_code(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(PACKAGE.rglob("*")):
            if "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(PACKAGE.parent))


def _link(path: str | Path, kept: str | Path) -> None:
    """A hard link at `kept` to a file; a copy where links are impossible."""
    Path(kept).unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(path), kept)  # DVC can be configured to put symbolic links in the workspace
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
        if status == "FINISHED":  # another training may continue: its time is not yet known
            log.metrics({"seconds": round(log.seconds_before + time.perf_counter() - started_at, 3)})
        log.end(status, why)
        if status != "FINISHED":
            beside = beside or _start_beside(log)
        if beside and has_failed(beside, WAIT_SECONDS):
            print(f"MLflow does not have all of {stage}; {REMEDY}", file=sys.stderr)


def start_sync() -> None:
    """Start to bring MLflow up to date, and do not wait. Never raises: `bukva sync` completes what fails."""
    with contextlib.suppress(OSError):
        leave_running(start_detached("bukva.tracking.sync"))


def _start_beside(log: Log) -> subprocess.Popen[bytes] | None:
    if log.folder is None:
        return None
    try:
        return start_detached("bukva.tracking.sync", "live", str(log.folder))
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
