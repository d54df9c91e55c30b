"""Journals: what a stage did, one event (JSON) per line, written while it runs and read while it grows.

    <project root>/.bukva/journal/<experiment>/<stage>-<8 digits>/
        journal.jsonl    in order: start, then metrics, artifact, model, and end as the last one; every event has a
                         time `at`, in milliseconds since 1970. Only journals contain times, DVC's outputs contain none
        artifacts/       hard links to what the stage wrote
        code.zip         of a training: bukva, which runs its model without the repository
    <project root>/.bukva/journal/<experiment>/notes-<key>/
        tags.json, artifacts/    notes on a whole experiment, added after its stages have ended

Each execution of a stage writes a journal of its own. A training that resumes from a checkpoint logs its former points
again, so its journal has the whole curve.

Artifacts are links because a queued experiment runs in a folder that DVC deletes. Links are safe because bukva replaces
files and never writes into them. The process that writes a journal keeps its file locked, and the system releases the
lock however that process ends. So a journal without a lock and without an end belongs to a killed process.
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
from bukva.core.machine import processor
from bukva.core.processes import LOG, has_failed, leave_running, sigterm_raises, start_detached
from bukva.project.stages import stages
from bukva.tracking.experiment import datasets, this_experiment

Event = dict[str, Any]

FILE, ARTIFACTS, TAGS, CODE = "journal.jsonl", "artifacts", "tags.json", "code.zip"
NOTE_CHARS = 1000  # of an end event
PACKAGE = Path(__file__).parents[1]  # bukva as it runs, also in the snapshot of an experiment
# The packages that serving/pyfunc.py imports. MLflow adds its own requirements.
DISTRIBUTIONS = (
    "jinja2", "mlflow", "numba", "numpy", "pandas", "pydantic", "pyyaml", "ruamel.yaml", "safetensors", "tokenizers",
    "torch",
)  # fmt: skip
LOCK_SECONDS = 10
WAIT_SECONDS = 10  # for the last events to reach MLflow, before a stage ends and leaves the sender running
REMEDY = f"Run `bukva sync`: it sends them or says why it cannot (log: {LOG})."


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
        """The folder of the notes on its experiment; it may not exist."""
        return self.folder.parent / f"notes-{self.key}"

    def read(self, offset: int = 0) -> tuple[list[Event], int]:
        """Return the complete events from byte `offset` on, and the offset after the last of them."""
        new = (self.folder / FILE).read_bytes()[offset:]
        complete = new[: new.rfind(b"\n") + 1]  # a line without an end is still being written
        return list(filter(None, map(_parse, complete.splitlines()))), offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """Return RUNNING and None, or how the execution ended and when, in milliseconds since 1970."""
        with (self.folder / FILE).open("rb") as file:
            try:  # before looking for the end: an unlocked file does not grow
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                is_abandoned = True
            except OSError:
                is_abandoned = False
            last = _parse(file.read().rstrip().rpartition(b"\n")[2])
            if last and last["record"] == "end":
                return str(last["status"]), int(last["at"])
            return ("KILLED", os.fstat(file.fileno()).st_mtime_ns // 1_000_000) if is_abandoned else ("RUNNING", None)

    def is_running(self) -> bool:
        """Whether the stage is being executed."""
        return self.status()[0] == "RUNNING"

    def remove_unfinished(self) -> None:
        """Remove the files that a killed process has not finished. They have no event, so nothing else reads them."""
        unfinished = [*(self.folder / ARTIFACTS).glob(".*.part"), *self.folder.glob(".*.part")]
        if unfinished and not self.is_running():
            for file in unfinished:
                file.unlink(missing_ok=True)

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return (self.folder / FILE).stat().st_size


def journals_root() -> Path:
    """The folder of all journals: in the original repository, also when a stage runs in a snapshot."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*", key: str = "") -> list[Journal]:
    """Return the journals of all experiments, or of those with this name or key, in the order of their starts."""
    opened = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    matching = [journal for journal in opened if journal and key in ("", journal.key)]
    return sorted(matching, key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """Return the journal in a folder; None if its first line is incomplete because its process was killed at once."""
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
    except FileNotFoundError:
        return None
    return Journal(folder, start) if start and start["record"] == "start" else None


def _parse(line: bytes) -> Any:
    """Return the event of a line; None for a line that a full disk or a power cut left incomplete."""
    try:
        return json.loads(line)
    except ValueError:
        return None


# ---- writing


class JournalWriter:
    """Writes the journal of one execution. A full or read-only disk loses events for MLflow, but never stops a stage.

    restored: DVC restored the outputs, and no stage ran.
    silent: write nothing, because another process writes the journal of this stage.
    """

    def __init__(self, stage: str, params: Params, *, restored: bool = False, silent: bool = False) -> None:
        self.stage = stage
        self.folder: Path | None = None
        self._file: FileIO | None = None
        self._has_failed = False
        if silent:
            return
        with self._errors_reported():
            start = _start(stage, params, restored)
            for killed in read_journals(start["experiment"]):
                killed.remove_unfinished()
            folder = journals_root() / start["id"]
            folder.mkdir(parents=True)
            self.folder, self._file = folder, (folder / FILE).open("ab", buffering=0)
            with contextlib.suppress(OSError):  # a file system without locks: it always looks like RUNNING to readers
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(**start)

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log numbers at a step."""
        self._write("metrics", step=step, values={name: float(value) for name, value in values.items()})

    def artifact(self, path: Path) -> None:
        """Log a file, or a folder with all its content; a later one of the same name replaces it."""
        self._keep("artifact", path)

    def text(self, name: str, content: str) -> None:
        """Log a text file that no stage writes elsewhere; a later one of the same name replaces it."""
        with self._errors_reported():
            if self.folder:
                write_text(self.folder / ARTIFACTS / name, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """Log the folder of a trained model, with the code and the list of packages that run it elsewhere."""
        with self._errors_reported():
            if self.folder:
                _pack_code(self.folder / CODE)
                self._keep("model", folder, name=name, requirements=requirements())

    def end(self, status: str, note: str = "") -> None:
        """Write the last event: FINISHED, FAILED or KILLED, and why."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

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
            if not self._has_failed:
                print(f"MLflow will miss results of {self.stage}. Its journal failed: {error}.", file=sys.stderr)
            self._has_failed = True


def note(experiment: str, tags: Mapping[str, str], files: Mapping[str, bytes], key: str = "") -> bool:
    """Keep tags and artifacts, by name, for MLflow's run of a whole experiment; start_sync sends them.

    Without the key, they are for the newest experiment of this name. Returns whether they are kept: False if no stage
    of the experiment has a journal here. An error of the disk is printed and not raised.
    """
    try:
        journals = read_journals(experiment, key)
        if journals:
            folder = journals[-1].notes
            (folder / ARTIFACTS).mkdir(parents=True, exist_ok=True)
            with FileLock(folder / ".lock", timeout=LOCK_SECONDS):
                former = read_json(folder / TAGS) if (folder / TAGS).exists() else {}
                write_json(folder / TAGS, {**former, **tags})
                for name, content in files.items():
                    with atomic_file(folder / ARTIFACTS / name) as unfinished:
                        unfinished.write_bytes(content)
        return bool(journals)
    except (OSError, KeyError, ValueError) as error:
        print(f"MLflow will miss a note on {experiment}. It cannot be kept: {error}.", file=sys.stderr)
        return False


def _start(stage: str, params: Params, restored: bool) -> Event:
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
        "datasets": datasets(spec.kind, params),
        "user": psutil.Process().username(),
        "processor": processor(),
    }


def requirements() -> list[str]:
    """Return the packages at their versions here, without suffixes that only this machine can install (2.13.0+cpu)."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def _pack_code(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(PACKAGE.rglob("*")):
            if "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(PACKAGE.parent))


def _link(path: str | Path, kept: str | Path) -> None:
    """Make a hard link at `kept` to a file, or a copy where links are impossible."""
    Path(kept).unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(path), kept)  # DVC can be configured to put symbolic links in the workspace
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, kept)


# ---- the journal of a stage, and the process that sends it


@contextlib.contextmanager
def journal(stage: str, params: Params, *, silent: bool = False) -> Iterator[JournalWriter]:
    """Write the journal of a stage: FINISHED when the block ends well, FAILED or KILLED when it does not.

    SIGTERM raises SystemExit in the block, so that it can save its state. A second process sends the journal of a
    training to MLflow while it runs. For other stages it starts only if they fail: importing mlflow takes longer than
    they do, and stage publish sends their journals.

    silent: as for JournalWriter.
    """
    log, started_at = JournalWriter(stage, params, silent=silent), time.perf_counter()
    sender = _start_sender(log) if stages()[stage].kind == "training" else None
    status, why = "FINISHED", ""
    try:
        with sigterm_raises():
            yield log
    except BaseException as error:
        status, why = _status_after(error)
        raise
    finally:
        log.metrics({"seconds": round(time.perf_counter() - started_at, 3)})
        log.end(status, why)
        if status != "FINISHED":
            sender = sender or _start_sender(log)
        if sender and has_failed(sender, WAIT_SECONDS):
            print(f"MLflow is missing results of {stage}. {REMEDY}", file=sys.stderr)


def start_sync() -> None:
    """Start to send all journals to MLflow, and do not wait. Never raises: `bukva sync` sends what is missing."""
    with contextlib.suppress(OSError):
        leave_running(start_detached("bukva.tracking.sync"))


def _start_sender(log: JournalWriter) -> subprocess.Popen[bytes] | None:
    if log.folder is None:
        return None
    try:
        return start_detached("bukva.tracking.sync", "live", str(log.folder))
    except OSError as error:
        print(f"MLflow does not show {log.stage} ({error}). {REMEDY}", file=sys.stderr)
        return None


def _status_after(error: BaseException) -> tuple[str, str]:
    match error:
        case KeyboardInterrupt() | SystemExit(code=130 | 143):  # the codes of shells for Ctrl-C and SIGTERM
            return "KILLED", "Interrupted."
        case SystemExit(code=None | 0):
            return "FINISHED", ""
        case _:
            return "FAILED", sentence_for(error) or f"{type(error).__name__}: {error}"
