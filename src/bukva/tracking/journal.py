"""Write and read journals, the local files in which stages record their results for MLflow.

Each execution of a stage writes one journal:

<project root>/.bukva/journal/<experiment>/<stage>-<8 hexadecimal digits>/
    journal.jsonl    a start event, then metrics, artifact and model events, then an end event. Each line is one
                     event, as a JSON object with the time `at` in milliseconds since 1970. The outputs of stages
                     contain no times, because they must be reproducible
    artifacts/       hard links to the files that the stage wrote
    code.zip         only for a training: the code of bukva, which runs the model without the repository

Tags and files can be added to an experiment after its stages have ended. They are called notes:

<project root>/.bukva/journal/<experiment>/notes-<`Experiment.key`>/
    tags.json        text of each tag, by tag name
    artifacts/       added files

A training that resumes from a checkpoint logs its earlier metrics again, so its new journal contains the complete loss
curve.

Artifacts are hard links, because a queued experiment runs in a folder that DVC deletes at the end. The linked content
does not change, because bukva replaces output files and never modifies them.

The process that writes a journal holds a lock on journal.jsonl. The operating system releases the lock when the process
ends, even if the process is killed. So a journal without a lock and without an end event belongs to a killed process.
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
from bukva.project.lock import LOCK, StageRecords, outputs
from bukva.project.stages import stages
from bukva.tracking.experiment import datasets, this_experiment

Event = dict[str, Any]

FILE, ARTIFACTS, TAGS, CODE = "journal.jsonl", "artifacts", "tags.json", "code.zip"
NOTE_CHARS = 1000  # maximum length of the note in an end event
PACKAGE = Path(__file__).parents[1]  # running code; a queued experiment has its own copy of the code
# Packages that serving/pyfunc.py imports. MLflow adds its own requirements.
DISTRIBUTIONS = (
    "jinja2", "mlflow", "numba", "numpy", "pandas", "pydantic", "pyyaml", "ruamel.yaml", "safetensors", "tokenizers",
    "torch",
)  # fmt: skip
LOCK_SECONDS = 10
# how long a stage waits until its last events are in MLflow; then the stage ends, and the sending process continues
WAIT_SECONDS = 10
REMEDY = f"Run `bukva sync` to send them (log: {LOG})."


# ---- reading


@dataclass(frozen=True)
class Journal:
    """Journal of one stage execution.

    folder: folder of the journal.
    start: first event of the journal. It contains the experiment, the parameters and the stage.
    """

    folder: Path
    start: Event

    @property
    def id(self) -> str:
        """Identifier of the journal, unique across all machines."""
        return str(self.start["id"])

    @property
    def key(self) -> str:
        """Digest that identifies the experiment (see `Experiment.key`)."""
        return str(self.start["key"])

    @property
    def notes(self) -> Path:
        """Folder with the tags and files that `save_note` adds to the experiment. The folder may not exist."""
        return self.folder.parent / f"notes-{self.key}"

    def read(self, offset: int = 0) -> tuple[list[Event], int]:
        """Read the complete events of journal.jsonl, starting at byte `offset`.

        Returns:
            The events, and the offset at which the next call should start.
        """
        new = (self.folder / FILE).read_bytes()[offset:]
        complete = new[: new.rfind(b"\n") + 1]  # a line without a newline is still being written
        return list(filter(None, map(_parse, complete.splitlines()))), offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """Return the status of the stage execution, and the time at which the execution ended.

        The status is RUNNING, FINISHED, FAILED or KILLED. The time is in milliseconds since 1970, or None for RUNNING.
        If a killed execution wrote no end event, the time is that of the last write to the journal.
        """
        with (self.folder / FILE).open("rb") as file:
            try:  # check the lock before reading the last event, because an unlocked file no longer grows
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                is_abandoned = True
            except OSError:
                is_abandoned = False
            last = _parse(file.read().rstrip().rpartition(b"\n")[2])
            if last and last["record"] == "end":
                return str(last["status"]), int(last["at"])
            return ("KILLED", os.fstat(file.fileno()).st_mtime_ns // 1_000_000) if is_abandoned else ("RUNNING", None)

    def is_running(self) -> bool:
        """Return whether the stage is still running."""
        return self.status()[0] == "RUNNING"

    def remove_unfinished(self) -> None:
        """Remove the partially written files that a killed stage left in the journal's folder.

        No event refers to these files. Do nothing while the stage is running.
        """
        unfinished = [*(self.folder / ARTIFACTS).glob(".*.part"), *self.folder.glob(".*.part")]
        if unfinished and not self.is_running():
            for file in unfinished:
                file.unlink(missing_ok=True)

    def size(self) -> int:
        """Return the size of journal.jsonl in bytes."""
        return (self.folder / FILE).stat().st_size


def journals_root() -> Path:
    """Return the folder that contains all journals.

    A queued experiment runs in a temporary copy of the project, but its journals are in the original project.
    """
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*", key: str = "") -> list[Journal]:
    """Return the journals of all experiments or of one experiment, sorted by start time.

    Args:
        experiment: name of the experiment, or `*` for all names.
        key: `Experiment.key` of the experiment, or "" for all keys.
    """
    opened = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    matching = [journal for journal in opened if journal and key in ("", journal.key)]
    return sorted(matching, key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """Return the journal in a folder.

    Return None if the folder has no journal.jsonl, or if the start event in this file is incomplete.
    """
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
    except FileNotFoundError:
        return None
    return Journal(folder, start) if start and start["record"] == "start" else None


def _parse(line: bytes) -> Any:
    """Parse a line of a journal. Return None if the line is incomplete because of a full disk or a power cut."""
    try:
        return json.loads(line)
    except ValueError:
        return None


# ---- writing


class JournalWriter:
    """Writer for the journal of one stage execution. The constructor writes the start event.

    Disk errors never stop the stage. Events that cannot be written will be missing in MLflow.

    stage: name of the stage.
    params: all parameters of params.yaml.
    restored: True if DVC restored the outputs from its cache instead of running the stage.
    silent: True if another process of the same training writes the journal. This writer then writes nothing.
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
            # on a file system without locks, a killed stage looks like a running one
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(**start)

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log the values of metrics at a step of the training. The keys of `values` are metric names."""
        self._write("metrics", step=step, values={name: float(value) for name, value in values.items()})

    def artifact(self, path: Path) -> None:
        """Log a file, or a folder with its whole content.

        An earlier artifact with the same file name is replaced.
        """
        self._link_and_log("artifact", path)

    def text(self, name: str, content: str) -> None:
        """Log the text `content` as an artifact with the file name `name`.

        The file exists only in the journal. An earlier artifact with the same file name is replaced.
        """
        with self._errors_reported():
            if self.folder:
                write_text(self.folder / ARTIFACTS / name, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """Log the folder of a trained model.

        The code of bukva and a list of the required packages are also logged. With them, the model can be used without
        the repository.
        """
        with self._errors_reported():
            if self.folder:
                _pack_code(self.folder / CODE)
                self._link_and_log("model", folder, name=name, requirements=requirements())

    def end(self, status: str, note: str = "") -> None:
        """Write the end event, and close the file.

        Args:
            status: FINISHED, FAILED or KILLED.
            note: reason for the status, cut to NOTE_CHARS characters. MLflow shows the reason as the description of
                the run.
        """
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
        """Suppress disk errors in the `with` block.

        Only the first error of this writer is printed.
        """
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                print(
                    f"Stage {self.stage} continues, but cannot record its results for MLflow ({error}). Make sure that "
                    "the disk has space and .bukva/journal is writable.",
                    file=sys.stderr,
                )
            self._has_failed = True


def journal_of(lock: StageRecords, name: str = "") -> Journal | None:
    """Return the newest journal of the experiment that made the outputs in `lock`, whatever its name is now.

    Stage publish has noted the dvc.lock of each experiment. If several experiments made the same outputs, the one with
    this name is preferred.
    """
    digests, found = list(outputs(lock).values()), list[Journal]()
    for noted in journals_root().glob(f"*/notes-*/{ARTIFACTS}/{LOCK}") if digests else ():
        text = noted.read_text(encoding="utf-8")
        if all(md5 in text for md5 in digests):
            folder = noted.parents[1]
            found += read_journals(folder.parent.name, folder.name.removeprefix("notes-"))
    return max(found, key=lambda each: (each.start["experiment"] == name, each.start["at"]), default=None)


def save_note(
    experiment: str,
    tags: Mapping[str, str],
    files: Mapping[str, bytes],
    key: str = "",
    lock: StageRecords | None = None,
) -> bool:
    """Save tags and files that will be added to the MLflow run of an experiment. `start_sync` sends them.

    Errors are printed, not raised.

    Args:
        experiment: name of the experiment.
        tags: text of each tag, by tag name.
        files: content of each file, by file name.
        key: `Experiment.key` of the experiment. If the key is "", the newest experiment with this name gets the tags
            and files.
        lock: the dvc.lock of the experiment. An experiment that was renamed is found by it.

    Returns:
        True if everything was saved. False after an error, or if this machine has no journal of the experiment.
    """
    try:
        made = journal_of(lock, experiment) if lock else None
        journals = [made] if made else read_journals(experiment, key)
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
        print(
            f"Tags and files of {experiment} were not saved and will be missing in MLflow ({error}).", file=sys.stderr
        )
        return False


def _start(stage: str, params: Params, restored: bool) -> Event:
    experiment, spec = this_experiment(params), stages()[stage]
    return {
        "record": "start",
        "id": f"{experiment.name}/{stage}-{uuid.uuid4().hex[:8]}",
        "experiment": experiment.name,
        "shown": experiment.shown,
        "label": experiment.label,
        "changed": experiment.changed,
        "edited": experiment.folders,
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
    """Return a requirement for pip, such as `torch==2.13.0`, for each package in DISTRIBUTIONS.

    Suffixes of the installed version, such as `+cpu`, are removed.
    """
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def _pack_code(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(PACKAGE.rglob("*")):
            if "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(PACKAGE.parent))


def _link(path: str | Path, link: str | Path) -> None:
    """Create `link` as a hard link to the file `path`. If hard links are impossible, copy the file to `link`."""
    Path(link).unlink(missing_ok=True)
    try:
        os.link(os.path.realpath(path), link)  # DVC can be configured to put symbolic links in the workspace
    except OSError:  # `link` is on another file system, or the file system has no hard links
        shutil.copyfile(path, link)


# ---- the journal of a stage, and the process that sends it


@contextlib.contextmanager
def journal(stage: str, params: Params, *, silent: bool = False) -> Iterator[JournalWriter]:
    """Record the stage that runs in the `with` block in a new journal, and yield the writer of the journal.

    After the block, the end event is written. Its status is FINISHED, or FAILED or KILLED after an exception. SIGTERM
    raises SystemExit in the block, so that the stage can save its state.

    For a training, a second process sends the journal to MLflow while the training runs. For other stages, this process
    starts only after a failure, because importing mlflow takes longer than these stages. If they succeed, stage
    publish sends their journals.

    silent: True to write no journal (see `JournalWriter`).
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
    """Start a process that sends all journals to MLflow. Do not wait for its end.

    No error is raised if the process cannot start, because a later `bukva sync` sends the journals.
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
            f"The process that sends results to MLflow did not start ({error}). MLflow is missing results of "
            f"{log.stage}. {REMEDY}",
            file=sys.stderr,
        )
        return None


def _status_after(error: BaseException) -> tuple[str, str]:
    match error:
        case KeyboardInterrupt() | SystemExit(code=130 | 143):  # exit statuses of a shell for Ctrl-C and SIGTERM
            return "KILLED", "Interrupted."
        case SystemExit(code=None | 0):
            return "FINISHED", ""
        case _:
            return "FAILED", message_for(error) or f"{type(error).__name__}: {error}"
