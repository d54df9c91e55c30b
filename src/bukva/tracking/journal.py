"""Journals: the events of a stage execution, one JSON object per line, appended while the stage runs.

    <project root>/.bukva/journal/<experiment>/<stage>-<8 digits>/
        journal.jsonl    a start event, then metrics, artifact and model events, then an end event. Every event has a
                         time `at`, in milliseconds since 1970. Only journals contain times; DVC's outputs do not
        artifacts/       hard links to the files that the stage wrote
        code.zip         only for a training: the code of bukva, which runs the model without the repository
    <project root>/.bukva/journal/<experiment>/notes-<key>/
        tags.json, artifacts/    notes on an experiment, added after its stages have ended

Every execution of a stage writes a new journal. A training that resumes from a checkpoint logs its earlier points
again, so its journal contains the complete curve.

Artifacts are hard links because a queued experiment runs in a folder that DVC deletes. A link is safe because bukva
replaces files and never modifies them. The process that writes a journal holds a lock on its file, and the operating
system releases the lock when the process ends, even if it is killed. So a journal that has neither a lock nor an end
event belongs to a killed process.
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
from bukva.core.errors import message_for
from bukva.core.files import atomic_file, project_root, read_json, write_json, write_text
from bukva.core.machine import processor
from bukva.core.processes import LOG, fails_within, leave_running, sigterm_raises, start_detached
from bukva.project.stages import stages
from bukva.tracking.experiment import datasets, this_experiment

Event = dict[str, Any]

FILE, ARTIFACTS, TAGS, CODE = "journal.jsonl", "artifacts", "tags.json", "code.zip"
NOTE_CHARS = 1000  # maximum length of the note in an end event
PACKAGE = Path(__file__).parents[1]  # the code that is running, also in the snapshot of an experiment
# Packages that serving/pyfunc.py imports. MLflow adds its own requirements.
DISTRIBUTIONS = (
    "jinja2", "mlflow", "numba", "numpy", "pandas", "pydantic", "pyyaml", "ruamel.yaml", "safetensors", "tokenizers",
    "torch",
)  # fmt: skip
LOCK_SECONDS = 10
WAIT_SECONDS = 10  # time for the last events to reach MLflow; then the stage ends and leaves the sender running
REMEDY = f"Run `bukva sync` to send them (log: {LOG})."


# ---- reading


@dataclass(frozen=True)
class Journal:
    """A journal in a folder, with its start event."""

    folder: Path
    start: Event

    @property
    def id(self) -> str:
        """Identifier that is unique among the journals of all machines."""
        return str(self.start["id"])

    @property
    def key(self) -> str:
        """Key of the experiment (see `Experiment.key`)."""
        return str(self.start["key"])

    @property
    def notes(self) -> Path:
        """Folder of the notes on the experiment; it may not exist."""
        return self.folder.parent / f"notes-{self.key}"

    def read(self, offset: int = 0) -> tuple[list[Event], int]:
        """Return the complete events from byte `offset` on, and the offset at which the next event starts."""
        new = (self.folder / FILE).read_bytes()[offset:]
        complete = new[: new.rfind(b"\n") + 1]  # a line without a newline is still being written
        return list(filter(None, map(_parse, complete.splitlines()))), offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """Return the status of the execution, and when it ended in milliseconds since 1970.

        The status is RUNNING, FINISHED, FAILED or KILLED. A running execution has None as its end.
        """
        with (self.folder / FILE).open("rb") as file:
            try:  # before reading the last event, because an unlocked file no longer grows
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                is_abandoned = True
            except OSError:
                is_abandoned = False
            last = _parse(file.read().rstrip().rpartition(b"\n")[2])
            if last and last["record"] == "end":
                return str(last["status"]), int(last["at"])
            return ("KILLED", os.fstat(file.fileno()).st_mtime_ns // 1_000_000) if is_abandoned else ("RUNNING", None)

    def is_running(self) -> bool:
        """Return whether the stage is being executed."""
        return self.status()[0] == "RUNNING"

    def remove_unfinished(self) -> None:
        """Remove the files that a killed process left unfinished. No event refers to them."""
        unfinished = [*(self.folder / ARTIFACTS).glob(".*.part"), *self.folder.glob(".*.part")]
        if unfinished and not self.is_running():
            for file in unfinished:
                file.unlink(missing_ok=True)

    def size(self) -> int:
        """Return the size of journal.jsonl in bytes."""
        return (self.folder / FILE).stat().st_size


def journals_root() -> Path:
    """Return the folder of all journals. A stage that runs in a snapshot uses the folder of the original repository."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*", key: str = "") -> list[Journal]:
    """Return all journals, oldest first, optionally only those of one experiment name or key."""
    opened = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    matching = [journal for journal in opened if journal and key in ("", journal.key)]
    return sorted(matching, key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """Return the journal in a folder, or None if the process was killed before it completed the first line."""
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
    except FileNotFoundError:
        return None
    return Journal(folder, start) if start and start["record"] == "start" else None


def _parse(line: bytes) -> Any:
    """Return the event of a line, or None if a full disk or a power cut left the line incomplete."""
    try:
        return json.loads(line)
    except ValueError:
        return None


# ---- writing


class JournalWriter:
    """Writer for the journal of one stage execution.

    A full or read-only disk never stops the stage; MLflow then misses the events that could not be written.

    restored: whether DVC restored the outputs from its cache instead of running the stage.
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
            with contextlib.suppress(OSError):  # on a file system without locks, readers always see RUNNING
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(**start)

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log the values of metrics at a step."""
        self._write("metrics", step=step, values={name: float(value) for name, value in values.items()})

    def artifact(self, path: Path) -> None:
        """Log a file, or a folder with all its content. A later artifact with the same name replaces it."""
        self._link_and_log("artifact", path)

    def text(self, name: str, content: str) -> None:
        """Log a text as a file that exists only in the journal. A later artifact with the same name replaces it."""
        with self._errors_reported():
            if self.folder:
                write_text(self.folder / ARTIFACTS / name, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """Log the folder of a trained model, with the code and the packages that are needed to run it elsewhere."""
        with self._errors_reported():
            if self.folder:
                _pack_code(self.folder / CODE)
                self._link_and_log("model", folder, name=name, requirements=requirements())

    def end(self, status: str, note: str = "") -> None:
        """Write the end event with the status FINISHED, FAILED or KILLED and the reason, and close the file."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

    def _link_and_log(self, record: str, path: Path, **content: Any) -> None:
        with self._errors_reported():
            if self.folder:
                link = self.folder / ARTIFACTS / path.name
                link.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, link, copy_function=_link, dirs_exist_ok=True)
                else:
                    _link(path, link)
                self._write(record, path=path.name, source=path.as_posix(), **content)

    def _write(self, record: str, **content: Any) -> None:
        with self._errors_reported():
            if self._file:
                event = {"record": record, "at": time.time_ns() // 1_000_000, **content}
                self._file.write(json.dumps(event, ensure_ascii=False).encode() + b"\n")

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        """Print the first disk error and ignore later ones."""
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                print(
                    f"MLflow will miss results of {self.stage}: its journal cannot be written ({error}).",
                    file=sys.stderr,
                )
            self._has_failed = True


def save_note(experiment: str, tags: Mapping[str, str], files: Mapping[str, bytes], key: str = "") -> bool:
    """Save tags and files, by name, for the MLflow run of an experiment. `start_sync` sends them.

    Without a key, the note belongs to the newest experiment of this name. A disk error is printed and not raised.

    Returns:
        Whether the note was saved. It is not saved if no stage of the experiment has a journal on this machine.
    """
    try:
        journals = read_journals(experiment, key)
        if journals:
            folder = journals[-1].notes
            (folder / ARTIFACTS).mkdir(parents=True, exist_ok=True)
            with FileLock(folder / ".lock", timeout=LOCK_SECONDS):
                existing = read_json(folder / TAGS) if (folder / TAGS).exists() else {}
                write_json(folder / TAGS, {**existing, **tags})
                for name, content in files.items():
                    with atomic_file(folder / ARTIFACTS / name) as unfinished:
                        unfinished.write_bytes(content)
        return bool(journals)
    except (OSError, KeyError, ValueError) as error:
        print(f"MLflow will miss a note on {experiment}, because it cannot be saved ({error}).", file=sys.stderr)
        return False


def _start(stage: str, params: Params, restored: bool) -> Event:
    experiment, spec = this_experiment(params), stages()[stage]
    return {
        "record": "start",
        "id": f"{experiment.name}/{stage}-{uuid.uuid4().hex[:8]}",
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
    """Return the packages with their installed versions, without local suffixes (`+cpu` in 2.13.0+cpu)."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def _pack_code(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(PACKAGE.rglob("*")):
            if "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(PACKAGE.parent))


def _link(path: str | Path, link: str | Path) -> None:
    """Create a hard link to a file, or a copy where hard links are impossible."""
    Path(link).unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(path), link)  # DVC can be configured to put symbolic links in the workspace
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, link)


# ---- the journal of a stage, and the process that sends it


@contextlib.contextmanager
def journal(stage: str, params: Params, *, silent: bool = False) -> Iterator[JournalWriter]:
    """Write the journal of the stage that runs in the block.

    The end event has the status FINISHED, or FAILED or KILLED after an exception. SIGTERM raises SystemExit in the
    block, so that the stage can save its state.

    A second process, the sender, sends the journal of a training to MLflow while the training runs. For other stages
    it starts only after a failure: importing mlflow takes longer than these stages, and stage publish sends their
    journals anyway.

    silent: see JournalWriter.
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
        if sender and fails_within(sender, WAIT_SECONDS):
            print(f"MLflow is missing results of {stage}. {REMEDY}", file=sys.stderr)


def start_sync() -> None:
    """Start a process that sends all journals to MLflow, without waiting for it.

    Nothing is raised if the process cannot start, because `bukva sync` sends missing journals later.
    """
    with contextlib.suppress(OSError):
        leave_running(start_detached("bukva.tracking.sync"))


def _start_sender(log: JournalWriter) -> subprocess.Popen[bytes] | None:
    if log.folder is None:
        return None
    try:
        return start_detached("bukva.tracking.sync", "live", str(log.folder))
    except OSError as error:
        print(
            f"MLflow is missing results of {log.stage}: the process that sends them did not start ({error}). {REMEDY}",
            file=sys.stderr,
        )
        return None


def _status_after(error: BaseException) -> tuple[str, str]:
    match error:
        case KeyboardInterrupt() | SystemExit(code=130 | 143):  # a shell's exit statuses for Ctrl-C and SIGTERM
            return "KILLED", "Interrupted."
        case SystemExit(code=None | 0):
            return "FINISHED", ""
        case _:
            return "FAILED", message_for(error) or f"{type(error).__name__}: {error}"
