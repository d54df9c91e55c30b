"""Record the executions of stages in .bukva, from which MLflow is filled together with DVC's cache.

Each execution of a stage has a folder, <project root>/.bukva/runs/<experiment>/<stage>-<8 hexadecimal digits>/:

    run.jsonl      events, one JSON object a line: start, end, and later notes on the experiment. `at` is the time in
                   milliseconds since 1970. Outputs of stages have no times, because they must be reproducible
    curve.csv      of a training: its losses so far, with the time and the speed at each point
    samples.txt    of a training: the lines that it has generated so far
    notes/         files that were added to the experiment later

Outputs are not stored again: the end event has the digests under which DVC's cache has them. The code that runs a
trained model without the repository is in .bukva/code, once for all trainings with the same code.

The writer holds a lock on run.jsonl until its process ends. So a record without a lock and without an end event belongs
to a killed process.
"""

import contextlib
import csv
import dataclasses
import fcntl
import hashlib
import io
import json
import signal
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import FileIO
from pathlib import Path
from typing import Any

import psutil

from bukva.core.errors import message_for, redact_text
from bukva.core.files import PACKAGE, atomic_file, project_root, read_json, write_text
from bukva.core.machine import processor
from bukva.core.processes import LOG, fails_within, leave_running, signals_call, start_detached
from bukva.core.schema import Params
from bukva.project.lock import StageRecords, outputs
from bukva.project.stages import stages, trained_models
from bukva.tracking.experiment import Experiment, datasets, this_experiment

Event = dict[str, Any]

MAIN = "gpt"  # model whose training the run of an experiment in MLflow describes
# entries of numerics.json that are known before a training; backends add more entries
NUMERICS = "torch", "numpy", "processor", "precision", "threads"
FILE, CURVE, SAMPLES, NOTES = "run.jsonl", "curve.csv", "samples.txt", "notes"
SHOWN = "reports/", "data/models/"  # outputs that are useful in MLflow; texts, ids and counts stay in DVC
MAX_MESSAGE_CHARS = 1000  # of an error, because a proxy may answer with a whole HTML page in one line
REQUIREMENTS = "requirements.txt"  # in the archive of the code
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
class Run(Experiment):
    """One execution of a stage.

    id: unique on all machines; the folder in .bukva/runs.
    restored: whether DVC restored the outputs from its cache instead of running the stage.
    numerics: of a training, and of a stage that uses its model: what affects its rounding.
    n_parameters: of the model of a training, or 0.
    code: name of the archive of the code of a training, or "".
    """

    id: str
    at: int
    stage: str
    restored: bool
    numerics: str
    datasets: list[Event]
    user: str
    processor: str
    n_parameters: int
    code: str

    @property
    def folder(self) -> Path:
        return runs_root() / self.id

    @property
    def kind(self) -> str:
        return stages()[self.stage].kind

    def state(self) -> tuple[Event, list[Event]]:
        """Return the end event and the notes. A run without an end event is RUNNING or KILLED, with what is known."""
        with (self.folder / FILE).open("rb") as file:
            try:  # check the lock before reading, because an unlocked file gets no end any more
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                status = "KILLED"
            except OSError:
                status = "RUNNING"
            events = [event for line in file.read().splitlines() if (event := _parse(line))]
        at = None
        if status == "KILLED":  # its last sign of life
            curve = self.folder / CURVE
            at = max(self.at, int(curve.stat().st_mtime * 1000)) if curve.exists() else self.at
        none: Event = {"status": status, "why": "", "at": at, "seconds": None, "outs": {}}
        ends = [event for event in events if event["event"] == "end"]
        return (ends or [none])[-1], [event for event in events if event["event"] == "note"]

    def is_running(self) -> bool:
        return bool(self.state()[0]["status"] == "RUNNING")


def runs_root() -> Path:
    """Return the folder of all records, which is in the original project also for a queued experiment."""
    return project_root() / ".bukva" / "runs"


def read_runs(experiment: str = "*", key: str = "", stage: str = "") -> list[Run]:
    """Return the runs of all experiments, or of the experiment with this name or key, oldest first."""
    opened = [open_run(file.parent) for file in runs_root().glob(f"{experiment}/{stage}*/{FILE}")]
    matching = [run for run in opened if run and key in ("", run.key) and stage in ("", run.stage)]
    return sorted(matching, key=lambda run: (run.at, run.id))


def open_run(folder: Path) -> Run | None:
    """Return the run in a folder, or None if its start event is incomplete or of another version of bukva."""
    with contextlib.suppress(FileNotFoundError, KeyError), (folder / FILE).open("rb") as file:
        if start := _parse(file.readline()):
            return Run(**{field.name: start[field.name] for field in dataclasses.fields(Run)})
    return None


def run_of(lock: StageRecords, name: str = "") -> Run | None:
    """Return the newest run that made outputs in `lock`, even if its experiment was renamed since.

    A run of the experiment called `name` is preferred. If no run has made them, the newest one of this name is
    returned.
    """
    digests, runs = outputs(lock).items(), read_runs()
    made = [run for run in runs if (outs := run.state()[0]["outs"].items()) and outs <= digests]
    found = made or [run for run in runs if run.experiment == name]
    return max(found, key=lambda run: (run.experiment == name, run.at), default=None)


def seconds_of_models(model: str) -> dict[str, float]:
    """Return how long each training of a model took, all parts of a resumed one included, by digest of the model."""
    about = trained_models()[model]
    ends = [run.state()[0] for run in read_runs(stage=about.stage) if not run.restored]
    return {end["outs"][about.folder.as_posix()]: end["seconds"] for end in ends if end["outs"]}


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # empty, or a full disk or a power cut has left an incomplete line
        return None


# ---- writing


class Recorder:
    """Writer for the record of one stage execution. Disk errors are reported once, and never stop the stage.

    silent: whether another process of the same training writes the record, and this one nothing.
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
        n_parameters: int = 0,
    ) -> None:
        self.stage, self.started_at = stage, time.monotonic()
        self.seconds_before = 0.0  # of a resumed training: the time before its interruption
        self.run: Run | None = None
        self._file: FileIO | None = None
        self._has_failed = False
        if silent:
            return
        with self._errors_reported():
            at, kind = time.time_ns() // 1_000_000, stages()[stage].kind
            experiment = this_experiment(params)
            run = Run(
                **dataclasses.asdict(experiment),
                id=f"{experiment.experiment}/{stage}-{uuid.uuid4().hex[:8]}",
                at=at,
                stage=stage,
                restored=restored,
                numerics=_numerics(stage, numerics, restored=restored),
                datasets=datasets(kind, params),
                user=psutil.Process().username(),
                processor=processor(),
                n_parameters=n_parameters,
                code=_pack_code() if kind == "training" else "",
            )
            run.folder.mkdir(parents=True)
            self.run, self._file = run, (run.folder / FILE).open("ab", buffering=0)
            # on a file system without locks, a killed stage looks like a running one
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.write(_line("start", dataclasses.asdict(run)))

    def seconds(self) -> float:
        """Return the time that the stage has taken so far."""
        return round(self.seconds_before + time.monotonic() - self.started_at, 3)

    def curve(self, points: Sequence[Mapping[str, float | None]]) -> None:
        """Write all points of a loss curve, of which the last has all columns."""
        text = io.StringIO()
        rows = csv.DictWriter(text, points[-1], lineterminator="\n")
        rows.writeheader()
        rows.writerows(points)
        self.text(CURVE, text.getvalue())

    def text(self, name: str, content: str) -> None:
        """Write a file of the record as a whole."""
        with self._errors_reported():
            if self.run:
                write_text(self.run.folder / name, content)

    def end(self, status: str, why: str = "") -> None:
        """Write the end event with the status FINISHED, FAILED or KILLED, the reason, and digests of outputs."""
        with self._errors_reported():
            if self._file:
                shown = [out for out in stages()[self.stage].outs if out.startswith(SHOWN) and Path(out).exists()]
                outs = {out: dvc_digest(Path(out)) for out in shown} if status == "FINISHED" else {}
                end = {"status": status, "why": why, "seconds": self.seconds(), "outs": outs}
                with self._file:
                    self._file.write(_line("end", end))

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._has_failed:
                print(
                    f"Stage {self.stage} continues, but cannot record its results for MLflow ({error}). Make sure that "
                    "the disk has space and .bukva/runs is writable.",
                    file=sys.stderr,
                )
            self._has_failed = True


def _line(event: str, content: Mapping[str, Any]) -> bytes:
    line = {"event": event, "at": time.time_ns() // 1_000_000, **content}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _numerics(stage: str, known: Mapping[str, str], *, restored: bool) -> str:
    """Describe what affected the rounding of this training, or of the GPT's for a report or a restored GPT."""
    model = trained_models()[MAIN]
    if stages()[stage].kind == "report" or (restored and stage == model.stage):
        with contextlib.suppress(OSError, ValueError):  # there is no model
            known = read_json(model.folder / "numerics.json")
    return ", ".join(f"{name}={known[name]}" for name in NUMERICS if name in known)


def dvc_digest(path: Path) -> str:
    """Return the digest that DVC records for a file or a folder, without importing DVC, which takes a second."""

    def md5(content: bytes) -> str:
        return hashlib.md5(content, usedforsecurity=False).hexdigest()

    if path.is_file():
        return md5(path.read_bytes())
    files = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    listed = [{"md5": md5(files[name].read_bytes()), "relpath": name} for name in sorted(files)]
    return f"{md5(json.dumps(listed, sort_keys=True).encode())}.dir"


def code_archive(name: str) -> Path:
    """Return the path of the archive of the code that made a training."""
    return project_root() / ".bukva" / "code" / f"{name}.zip"


def _pack_code() -> str:
    """Store the running code and its requirements unless they are stored, and return the name of the archive."""
    pins = "\n".join(f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS)  # without +cpu
    files = {
        file.relative_to(PACKAGE.parent).as_posix(): file.read_bytes()
        for file in sorted(PACKAGE.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    } | {REQUIREMENTS: pins.encode()}
    name = hashlib.sha256(repr(files).encode()).hexdigest()[:16]
    if not (archive := code_archive(name)).exists():
        with atomic_file(archive) as unfinished, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
            for path, content in files.items():
                packed.writestr(path, content)
    return name


def save_note(run: Run, tags: Mapping[str, str], files: Mapping[str, bytes]) -> bool:
    """Save tags and files, by name, for the experiment of a run in MLflow. Print an error and return False."""
    try:
        for name, content in files.items():
            with atomic_file(run.folder / NOTES / name) as unfinished:
                unfinished.write_bytes(content)
        with (run.folder / FILE).open("ab", buffering=0) as file:  # a full disk may have cut off the last line
            file.write(b"\n" + _line("note", {"tags": dict(tags), "files": list(files)}))
        return True
    except OSError as error:
        print(
            f"Tags and files of {run.experiment} were not saved and will be missing in MLflow ({error}).",
            file=sys.stderr,
        )
        return False


# ---- the record of a stage, and the process that sends it


@contextlib.contextmanager
def recorded(stage: str, params: Params, **more: Any) -> Iterator[Recorder]:
    """Record the stage that runs in the `with` block (see `Recorder`).

    SIGTERM raises SystemExit in the block, so that the stage can save its state. A training of the GPT is sent to
    MLflow while it runs, and another stage only if it fails: importing mlflow takes longer than the stage, so stage
    publish sends it.
    """
    log = Recorder(stage, params, **more)
    live = ("live", str(log.run.folder)) if log.run else ()
    is_long = stage == trained_models()[MAIN].stage
    sender = _start_sender(*live) if live and is_long else None
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
                status, why = "FAILED", explain(error)
        raise
    finally:
        log.end(status, why)
        if live and (is_long or status != "FINISHED"):
            sender = sender or _start_sender(*live)
            if sender is None or fails_within(sender, WAIT_SECONDS):
                print(f"MLflow is missing results of {stage}. {REMEDY}", file=sys.stderr)


def start_sync() -> None:
    """Start a process that sends all runs to MLflow. If it cannot start, a later `bukva sync` sends them."""
    if sender := _start_sender():
        leave_running(sender)


def _start_sender(*arguments: str) -> subprocess.Popen[bytes] | None:
    with contextlib.suppress(OSError):  # for example, the user may start no more processes
        return start_detached("bukva.tracking.sync", *arguments)
    return None


def explain(error: BaseException) -> str:
    """Describe an error in one line without secrets. An unexpected error is described by its innermost cause."""
    while not message_for(error) and (
        cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    ):
        error = cause
    unexpected = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
    return (message_for(error) or redact_text(unexpected))[:MAX_MESSAGE_CHARS]
