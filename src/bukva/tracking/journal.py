"""Write and read journals, the local files in which stages record their results for MLflow.

Each execution of a stage has a folder, <project root>/.bukva/journal/<experiment>/<stage>-<8 hexadecimal digits>/:

    journal.jsonl    events, one JSON object a line: start, metrics, artifact, model, end, and later notes on the
                     experiment. `at` is the time in milliseconds since 1970. Outputs of stages have no times, because
                     they must be reproducible
    artifacts/       hard links to the files that the stage wrote, because DVC deletes the folder of a queued experiment
    notes/           files that were added to the experiment later
    code.zip         only for a training: the code of bukva, which runs the model without the repository

A resumed training logs its earlier metrics again, so its journal contains the complete loss curve. The writer holds a
lock on journal.jsonl until its process ends. So a journal without a lock and without an end event belongs to a killed
process.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
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

from bukva.core.errors import message_for, redact_text
from bukva.core.files import atomic_file, project_root, write_text
from bukva.core.machine import processor
from bukva.core.processes import LOG, fails_within, leave_running, signals_call, start_detached
from bukva.core.schema import Params
from bukva.project.lock import LOCK, StageRecords, outputs
from bukva.project.stages import stages, trained_models
from bukva.tracking.experiment import MAIN, datasets, numerics_of, this_experiment, trained_numerics

Event = dict[str, Any]

FILE, ARTIFACTS, NOTES, CODE = "journal.jsonl", "artifacts", "notes", "code.zip"
END, NOTE = b'{"record": "end"', b'{"record": "note"'  # begins of the lines of these events
NOTE_CHARS = 1000  # maximum length of the note in an end event
PACKAGE = Path(__file__).parents[1]  # running code; a queued experiment has its own copy of the code
# Packages that serving/pyfunc.py imports. MLflow adds its own requirements.
DISTRIBUTIONS = (
    "jinja2", "mlflow", "numba", "numpy", "pandas", "pydantic", "pyyaml", "ruamel.yaml", "safetensors", "tokenizers",
    "torch",
)  # fmt: skip
# how long a stage waits until its last events are in MLflow; then the stage ends, and the sending process continues
WAIT_SECONDS = 10
REMEDY = f"Run `bukva sync` to send them (log: {LOG})."


# ---- reading


@dataclass(frozen=True)
class Journal:
    """Journal of one stage execution.

    The start event describes the experiment (see `this_experiment`) and the stage. Its `id` is unique on all machines.
    """

    folder: Path
    start: Event

    def read(self, offset: int = 0) -> tuple[list[Event], int]:
        """Return the complete events from byte `offset` on, and the offset of the next event."""
        new = (self.folder / FILE).read_bytes()[offset:]
        complete = new[: new.rfind(b"\n") + 1]  # a line without a newline is still being written
        return list(filter(None, map(_parse, complete.splitlines()))), offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """Return RUNNING, FINISHED, FAILED or KILLED, and when the stage ended, in milliseconds since 1970.

        A killed stage ended at its last event. Notes that were added later do not count.
        """
        with (self.folder / FILE).open("rb") as file:
            try:  # check the lock before reading the last event, because an unlocked file no longer grows
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                is_abandoned = True
            except OSError:
                is_abandoned = False
            own = [line for line in file if not line.startswith(NOTE)]
            if ends := [event for line in own if line.startswith(END) and (event := _parse(line))]:
                return str(ends[-1]["status"]), int(ends[-1]["at"])
            if not is_abandoned:
                return "RUNNING", None
            return "KILLED", next(int(event["at"]) for line in reversed(own) if (event := _parse(line)))

    def is_running(self) -> bool:
        return self.status()[0] == "RUNNING"

    def append(self, record: str, **content: Any) -> None:
        """Append an event after the stage has ended, or while it runs."""
        with (self.folder / FILE).open("ab", buffering=0) as file:
            file.write(b"\n" + _line(record, content))  # a full disk may have cut off the last line


def journals_root() -> Path:
    """Return the folder of all journals, which is in the original project also for a queued experiment."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*", key: str = "") -> list[Journal]:
    """Return the journals of all experiments, or of the experiment with this name or key, oldest first."""
    opened = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    matching = [journal for journal in opened if journal and key in ("", journal.start["key"])]
    return sorted(matching, key=lambda journal: (journal.start["at"], journal.start["id"]))


def open_journal(folder: Path) -> Journal | None:
    """Return the journal in a folder, or None if it has no complete start event."""
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
    except FileNotFoundError:
        return None
    return Journal(folder, start) if start and start["record"] == "start" else None


def journal_of(lock: StageRecords, name: str = "") -> Journal | None:
    """Return the newest journal of the experiment that made the outputs in `lock`, even if it was renamed since.

    Stage publish has noted the dvc.lock of each experiment. If several have noted these outputs, the one called `name`
    is preferred. If none has, the newest journal of the experiment called `name` is returned.
    """
    digests, found = list(outputs(lock).values()), list[Journal]()
    for noted in journals_root().glob(f"*/*/{NOTES}/{LOCK}") if digests else ():
        text, made = noted.read_text(encoding="utf-8"), open_journal(noted.parents[1])
        if made and all(md5 in text for md5 in digests):
            found += read_journals(made.start["experiment"], made.start["key"])
    found = found or (read_journals(name) if name else [])
    return max(found, key=lambda each: (each.start["experiment"] == name, each.start["at"]), default=None)


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # a full disk or a power cut has left an incomplete line
        return None


# ---- writing


class JournalWriter:
    """Writer for the journal of one stage execution. Disk errors are reported once, and never stop the stage.

    restored: whether DVC restored the outputs from its cache instead of running the stage.
    silent: whether another process of the same training writes the journal, and this one nothing.
    numerics: of a training, what affects its rounding (Machine.numerics).
    """

    def __init__(
        self,
        stage: str,
        params: Params,
        *,
        restored: bool = False,
        silent: bool = False,
        numerics: Mapping[str, str] = {},
    ) -> None:
        self.stage = stage
        self.journal: Journal | None = None
        self._file: FileIO | None = None
        self._has_failed = False
        if silent:
            return
        with self._errors_reported():
            start = _start(stage, params, restored, numerics)
            folder = journals_root() / start["id"]
            folder.mkdir(parents=True)
            self.journal, self._file = Journal(folder, start), (folder / FILE).open("ab", buffering=0)
            # on a file system without locks, a killed stage looks like a running one
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write("start", **start)

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log the values of metrics at a step of the training, by metric name."""
        self._write("metrics", step=step, values={name: float(value) for name, value in values.items()})

    def artifact(self, path: Path) -> None:
        """Log a file or folder. An earlier artifact with the same file name is replaced."""
        self._write("artifact", path)

    def text(self, name: str, content: str) -> None:
        """Log a text as an artifact that exists only in the journal. An earlier artifact of this name is replaced."""
        with self._errors_reported():
            if self.journal:
                write_text(self.journal.folder / ARTIFACTS / name, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """Log the folder of a trained model, the code of bukva and the required packages."""
        with self._errors_reported():
            if self.journal:
                _pack_code(self.journal.folder / CODE)
                self._write("model", folder, name=name, requirements=requirements())

    def replace_finished(self) -> None:
        """Mark the last execution of this stage as killed if it has finished, because this one only writes its outputs.

        So it is if DVC was killed between the end of a training and the record of its outputs.
        """
        with self._errors_reported():
            if not self.journal:
                return
            own = self.journal.start
            earlier = [
                each
                for each in read_journals(own["experiment"], own["key"])
                if each.start["stage"] == self.stage and not each.start["restored"] and each.start["id"] != own["id"]
            ]
            status, ended_at = earlier[-1].status() if earlier else ("", None)
            if status == "FINISHED":
                why = "DVC ended before it recorded the outputs, so a later execution wrote them again."
                earlier[-1].append("end", status="KILLED", note=why, at=ended_at)

    def end(self, status: str, note: str = "") -> None:
        """Write the end event with the status FINISHED, FAILED or KILLED, and the reason for it."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

    def _write(self, record: str, linked: Path | None = None, **content: Any) -> None:
        with self._errors_reported():
            if not (self.journal and self._file):
                return
            if linked:
                _link(linked, self.journal.folder / ARTIFACTS / linked.name)
                content |= {"path": linked.name, "source": linked.as_posix()}
            self._file.write(_line(record, content))

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
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


def save_note(made: Journal, tags: Mapping[str, str], files: Mapping[str, bytes]) -> bool:
    """Save tags and files, by name, for the MLflow run of the experiment of `made`. Print an error and return False."""
    try:
        for name, content in files.items():
            with atomic_file(made.folder / NOTES / name) as unfinished:
                unfinished.write_bytes(content)
        made.append("note", tags=dict(tags), files=list(files))
        return True
    except OSError as error:
        print(
            f"Tags and files of {made.start['experiment']} were not saved and will be missing in MLflow ({error}).",
            file=sys.stderr,
        )
        return False


def _line(record: str, content: Event) -> bytes:
    event = {"record": record, "at": time.time_ns() // 1_000_000, **content}
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


def _start(stage: str, params: Params, restored: bool, numerics: Mapping[str, str]) -> Event:
    experiment, spec = this_experiment(params), stages()[stage]
    has_gpt = spec.kind == "report" or (restored and stage == trained_models()[MAIN].stage)
    return {
        "id": f"{experiment['experiment']}/{stage}-{uuid.uuid4().hex[:8]}",
        **experiment,
        "stage": stage,
        "kind": spec.kind,
        "sections": spec.sections,
        "restored": restored,
        "numerics": numerics_of(numerics) or (trained_numerics() if has_gpt else ""),
        "datasets": datasets(spec.kind, params),
        "user": psutil.Process().username(),
        "processor": processor(),
    }


def requirements() -> list[str]:
    """Return a requirement for pip for each package in DISTRIBUTIONS, without suffixes such as `+cpu`."""
    return [f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS]


def _pack_code(archive: Path) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(PACKAGE.rglob("*")):
            if "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(PACKAGE.parent))


def _link(path: Path, link: Path) -> None:
    """Create hard links to a file, or to all files of a folder, or copies if the file system has no hard links."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_dir():
            continue
        linked = link / file.relative_to(path)
        linked.parent.mkdir(parents=True, exist_ok=True)
        linked.unlink(missing_ok=True)
        try:  # the content stays, because output files are replaced, never modified
            os.link(os.path.realpath(file), linked)  # DVC can be configured to put symbolic links in the workspace
        except OSError:
            shutil.copyfile(file, linked)


# ---- the journal of a stage, and the process that sends it


@contextlib.contextmanager
def journal(
    stage: str, params: Params, *, silent: bool = False, numerics: Mapping[str, str] = {}
) -> Iterator[JournalWriter]:
    """Record the stage that runs in the `with` block in a new journal, and yield its writer (see `JournalWriter`).

    SIGTERM raises SystemExit in the block, so that the stage can save its state. A training is sent to MLflow while it
    runs, and another stage only if it fails: importing mlflow takes longer than the stage, so stage publish sends it.
    """
    log, started_at = JournalWriter(stage, params, silent=silent, numerics=numerics), time.perf_counter()
    live = ("live", str(log.journal.folder)) if log.journal else ()
    is_training = stages()[stage].kind == "training"
    sender = _start_sender(*live) if live and is_training else None
    status, why = "FINISHED", ""
    try:
        with signals_call(lambda number, _: sys.exit(128 + number), signal.SIGTERM):
            yield log
    except BaseException as error:
        match error:
            case KeyboardInterrupt() | SystemExit(code=130 | 143):  # exit statuses of a shell for Ctrl-C and SIGTERM
                status, why = "KILLED", "Interrupted."
            case SystemExit(code=None | 0):
                pass
            case _:
                status, why = "FAILED", why_failed(error)
        raise
    finally:
        log.metrics({"seconds": round(time.perf_counter() - started_at, 3)})
        log.end(status, why)
        if live and (is_training or status != "FINISHED"):
            sender = sender or _start_sender(*live)
            if sender is None or fails_within(sender, WAIT_SECONDS):
                print(f"MLflow is missing results of {stage}. {REMEDY}", file=sys.stderr)


def start_sync() -> None:
    """Start a process that sends all journals to MLflow. If it cannot start, a later `bukva sync` sends them."""
    if sender := _start_sender():
        leave_running(sender)


def _start_sender(*arguments: str) -> subprocess.Popen[bytes] | None:
    with contextlib.suppress(OSError):  # for example, the user may start no more processes
        return start_detached("bukva.tracking.sync", *arguments)
    return None


def why_failed(error: BaseException) -> str:
    """Describe any error in one sentence."""
    return message_for(error) or redact_text(f"{type(error).__name__}: {error}")
