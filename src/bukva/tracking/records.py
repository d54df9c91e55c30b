"""The journal of one stage execution: a folder that a stage fills and others read.

    <project root>/.bukva/journal/<experiment>/<stage>-<NNN>/
        journal.jsonl    one JSON object per line, in order: start, then metrics, artifact, tags, at last end
        adopted.json     of which experiment it is now, if that is another than the one it began in
        artifacts/       hard links to what the stage wrote

Links, because a queued experiment runs in a folder that DVC deletes; and safe ones, because bukva replaces
files and never writes into them. Every record has a time `at`, in milliseconds since 1970: journals are the
one place for times, DVC's outputs hold none.

Who writes a journal keeps its file locked. The system gives the lock back however the process ends, so a free
lock without an end record says: killed.
"""

import contextlib
import fcntl
import getpass
import json
import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from bukva.base.files import project_root, read_json, write_json
from bukva.config.schema import Params
from bukva.pipeline.stages import stages
from bukva.tracking.experiment import Experiment, this_experiment

Record = dict[str, Any]

FILE = "journal.jsonl"
ADOPTED = "adopted.json"
NOTE_CHARS = 1000  # keeps the end record well within the bytes that are read to find it
TAIL_BYTES = 16384


class Log:
    """Writes one journal. A full or read-only disk costs MLflow some records, never a night's training."""

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
        self._file: FileIO | None = None
        self._told = False
        self._points: set[tuple[str, int]] = set()  # those that the journal has already, by name and step
        self.seconds_before = 0.0  # that the execution ran before it was interrupted
        if silent:
            return
        with self._harmless():
            experiment = this_experiment(params)
            if training_id and self._continues(experiment, training_id, resumes):
                return
            self.folder = _new_folder(journals_root() / experiment.name, stage)
            self._file = _open_locked(self.folder / FILE)
            self._write(
                "start",
                id=f"{experiment.name}/{self.folder.name}/{uuid.uuid4().hex}",
                stage=stage,
                kind=stages()[stage].kind,
                **_of_experiment(experiment),
                sections=stages()[stage].sections,
                restored=restored,
                training_id=training_id,
                argv=sys.orig_argv,
                pid=os.getpid(),
                host=socket.gethostname(),
                user=_user(),
            )

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Numbers at a step; those that the journal had before an interruption keep their time."""
        new = {name: float(value) for name, value in values.items() if (name, step) not in self._points}
        if new:
            self._write("metrics", step=step, values=new)

    def tags(self, values: Mapping[str, str]) -> None:
        """Words about this execution."""
        self._write("tags", values=dict(values))

    def artifact(self, path: Path, folder: str = "") -> None:
        """A file, or a folder with all that is in it, kept below `folder`; the last of one name stays."""
        with self._harmless():
            if self.folder:
                name = Path(folder) / path.name
                _keep(path, self.folder / "artifacts" / name)
                self._write("artifact", path=name.as_posix(), source=path.as_posix())

    def end(self, status: str, note: str = "") -> None:
        """The last record: FINISHED, FAILED or KILLED, and why."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

    def _continues(self, experiment: Experiment, training_id: str, resumes: bool) -> bool:
        """Whether there is an interrupted journal of the same training, which is then continued.

        It may have begun in another experiment: DVC gives a new name to whoever types `dvc exp run` again.
        """
        journal = _interrupted(experiment, self.stage, training_id, resumes)
        if journal is None:
            return False
        self.folder = journal.folder if journal.key == experiment.key else _adopt(journal, experiment)
        self._file = _open_locked(self.folder / FILE)
        records = Journal(self.folder, journal.start).read()[0]
        self._points = {
            (name, record["step"]) for record in records if record["record"] == "metrics" for name in record["values"]
        }
        self.seconds_before = _seconds(records)
        self._file.write(b"\n")  # a line that a kill has torn ends here, and is no record
        self._write("resumed", pid=os.getpid(), host=socket.gethostname())
        return True

    def _write(self, record: str, **content: Any) -> None:
        with self._harmless():
            if self._file:
                self._file.write(_line(record, now(), **content))

    @contextlib.contextmanager
    def _harmless(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._told:
                print(f"MLflow will lack something of {self.stage}: its journal failed, {error}.", file=sys.stderr)
            self._told = True


@dataclass(frozen=True)
class Journal:
    """Reads one journal, also while it grows."""

    folder: Path
    start: Record

    @property
    def id(self) -> str:
        """Unique among all journals of all machines."""
        return str(self.start["id"])

    @property
    def key(self) -> str:
        """The experiment's."""
        return str(self.start["key"])

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.stat().st_size

    def read(self, offset: int = 0) -> tuple[list[Record], int]:
        """The whole records from byte `offset` on, and the offset behind the last of them."""
        with self._file.open("rb") as file:
            file.seek(offset)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]  # a line without an end is still being written
        records = filter(None, map(_parse, whole.splitlines()))
        return [self.start if record["record"] == "start" else record for record in records], offset + len(whole)

    def status(self) -> tuple[str, int | None]:
        """RUNNING, or how and when the execution ended."""
        with self._file.open("rb") as file:
            abandoned = _is_unlocked(file.fileno())  # asked first: after a yes nothing more is written
            end = self._end()
        if end:
            return str(end["status"]), int(end["at"])
        return ("KILLED", self._file.stat().st_mtime_ns // 1_000_000) if abandoned else ("RUNNING", None)

    def close_if_killed(self) -> bool:
        """Write the end of a journal whose process was killed, and could not; whether it was one."""
        if self._end():
            return False
        with self._file.open("ab", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # the process lives
                return False
            last_sign = self._file.stat().st_mtime_ns // 1_000_000
            file.write(b"\n" + _line("end", last_sign, status="KILLED", note="Its process was killed."))
        return True

    def _end(self) -> Record | None:
        with self._file.open("rb") as file:
            file.seek(max(0, self.size - TAIL_BYTES))
            last = _parse(file.read().rstrip().rpartition(b"\n")[2])
        return last if last and last["record"] == "end" else None

    @property
    def _file(self) -> Path:
        return self.folder / FILE


def journals_root() -> Path:
    """Where all journals lie: in the original repository, even when a stage runs in a snapshot."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*") -> list[Journal]:
    """All journals, or those of one experiment, in the order in which they began."""
    journals = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    return sorted(filter(None, journals), key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """The journal in a folder; None when its first line is not whole, for its writer was killed at once."""
    try:
        with (folder / FILE).open("rb") as file:
            start = _parse(file.readline())
        adopted = read_json(folder / ADOPTED) if (folder / ADOPTED).exists() else {}
    except FileNotFoundError:
        return None
    return Journal(folder, start | adopted) if start and start["record"] == "start" else None


def now() -> int:
    """Milliseconds since 1970, which is how MLflow counts."""
    return time.time_ns() // 1_000_000


def _new_folder(parent: Path, stage: str) -> Path:
    """A folder of our own: of all who make the same one mkdir lets one pass, and the others count on."""
    parent.mkdir(parents=True, exist_ok=True)
    number = len(list(parent.glob(f"{stage}-*")))
    while True:
        number += 1
        with contextlib.suppress(FileExistsError):
            folder = parent / f"{stage}-{number:03d}"
            folder.mkdir()
            return folder


def _seconds(records: list[Record]) -> float:
    """How long an execution ran, in all its parts, each as far as the journal tells of it."""
    total, began, last = 0, 0, 0
    for record in records:
        if record["record"] in ("start", "resumed"):
            total, began = total + last - began, record["at"]
        last = record["at"]
    return (total + last - began) / 1000


def _interrupted(experiment: Experiment, stage: str, training_id: str, resumes: bool) -> Journal | None:
    """The last journal of a training that can go on.

    That is one that was killed; in the same experiment also one that failed, on a full disk for example; and where
    there is a checkpoint also one that ended well, for it was killed before DVC had its outputs.
    """
    for journal in reversed(read_journals()):
        if (journal.start["stage"], journal.start.get("training_id")) == (stage, training_id):
            status, is_ours = journal.status()[0], journal.key == experiment.key
            if status == "KILLED" or (status == "FAILED" and is_ours) or (status == "FINISHED" and resumes):
                return journal
    return None


def _adopt(journal: Journal, experiment: Experiment) -> Path:
    """Give an interrupted journal to the experiment that goes on with it; returns its new folder."""
    folder = _new_folder(journals_root() / experiment.name, journal.start["stage"])
    journal.folder.rename(folder)
    write_json(folder / ADOPTED, _of_experiment(experiment))
    return folder


def _of_experiment(experiment: Experiment) -> Record:
    return {
        "experiment": experiment.name,
        "key": experiment.key,
        "commit": experiment.commit,
        "params": experiment.params,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return str(os.getuid())


def _open_locked(path: Path) -> FileIO:
    file = path.open("ab", buffering=0)
    with contextlib.suppress(OSError):  # a file system without locks: then nobody finds this one unlocked either
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _is_unlocked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _keep(path: Path, kept: Path) -> None:
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            _keep(entry, kept / entry.name)
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), kept)  # resolved: DVC can be told to put symbolic links in the workspace
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, kept)


def _line(record: str, at: int, **content: Any) -> bytes:
    return json.dumps({"record": record, "at": at, **content}, ensure_ascii=False).encode() + b"\n"


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:  # torn by a full disk or a power cut
        return None
    return record if isinstance(record, dict) and "record" in record else None
