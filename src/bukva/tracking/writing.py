"""Writes a journal."""

import contextlib
import fcntl
import getpass
import os
import shutil
import socket
import sys
import uuid
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from bukva.config.schema import Params
from bukva.core.files import atomic_file, write_text
from bukva.project.stages import stages
from bukva.tracking.continuing import find_interrupted, logged_points, move_to, seconds_logged
from bukva.tracking.datasets import datasets
from bukva.tracking.experiment import Experiment, this_experiment
from bukva.tracking.models.package import requirements, write_code
from bukva.tracking.reading import Journal, new_folder
from bukva.tracking.records import CODE, FILE, experiment_fields, now, to_line

MODELS = "model"  # the folder of artifacts that has the models
NOTE_CHARS = 1000  # keeps the end record shorter than reading.TAIL_BYTES


class Log:
    """Writes one journal. A full or read-only disk loses records for MLflow, but never stops a stage."""

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
            interrupted = find_interrupted(experiment, stage, training_id, resumes) if training_id else None
            if interrupted:
                self._continue(move_to(experiment, interrupted))
            else:
                self._start(experiment, training_id, restored, datasets(stages()[stage].kind, params))

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Numbers at a step; those that the journal had before an interruption keep their time."""
        new = {name: float(value) for name, value in values.items() if (name, step) not in self._points}
        if new:
            self._write("metrics", step=step, values=new)

    def tags(self, values: Mapping[str, str]) -> None:
        """Texts about this execution, by name."""
        self._write("tags", values=dict(values))

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
                kept = self.folder / "artifacts" / name
                kept.parent.mkdir(exist_ok=True)
                write_text(kept, content)
                self._write("artifact", path=name, source="")

    def model(self, name: str, folder: Path) -> None:
        """The folder of a trained model, with the code and the list of packages that run it elsewhere.

        Args:
            name: of the model.
            folder: as bukva.models.folder writes it.
        """
        self.artifact(folder, MODELS)
        with self._errors_reported():
            if self.folder:
                with atomic_file(self.folder / CODE) as unfinished:
                    write_code(unfinished)
                path = (Path(MODELS) / folder.name).as_posix()
                self._write("model", name=name, path=path, requirements=requirements())

    def end(self, status: str, note: str = "") -> None:
        """The last record: FINISHED, FAILED or KILLED, and why."""
        self._write("end", status=status, note=note[:NOTE_CHARS])
        if self._file:
            self._file.close()

    def _start(self, experiment: Experiment, training_id: str, restored: bool, inputs: list[dict[str, Any]]) -> None:
        self.folder = new_folder(experiment.name, self.stage)
        self._file = _open_locked(self.folder / FILE)
        self._write(
            "start",
            id=f"{experiment.name}/{self.folder.name}/{uuid.uuid4().hex}",
            stage=self.stage,
            kind=stages()[self.stage].kind,
            **experiment_fields(experiment),
            sections=stages()[self.stage].sections,
            restored=restored,
            training_id=training_id,
            datasets=inputs,
            argv=sys.orig_argv,
            pid=os.getpid(),
            host=socket.gethostname(),
            user=_user(),
        )

    def _continue(self, journal: Journal) -> None:
        self.folder = journal.folder
        self._file = _open_locked(self.folder / FILE)
        records = journal.read()[0]
        self._points, self.seconds_before = logged_points(records), seconds_logged(records)
        self._file.write(b"\n")  # ends an incomplete line that a killed process left; the line is then ignored
        self._write("resumed", pid=os.getpid(), host=socket.gethostname())

    def _write(self, record: str, **content: Any) -> None:
        with self._errors_reported():
            if self._file:
                self._file.write(to_line(record, now(), **content))

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        """Print the first error of the disk and ignore the others."""
        try:
            yield
        except OSError as error:
            if not self._reported:
                print(f"MLflow will lack something of {self.stage}: its journal failed, {error}.", file=sys.stderr)
            self._reported = True


def _open_locked(path: Path) -> FileIO:
    file = path.open("ab", buffering=0)
    with contextlib.suppress(OSError):  # a file system without locks: readers cannot lock it either, and find RUNNING
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


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
