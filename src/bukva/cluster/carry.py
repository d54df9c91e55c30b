"""Checkpoints and journals of a trial travel, so that another machine can continue it.

They lie on the DVC remote, which all machines reach with the settings of DVC, beside its objects:

    <remote>/bukva/<commit>/<trial>/attempt-N/
        journals/<stage>-001/journal.jsonl      of trainings, up to the newest checkpoint; of all stages at the end
        checkpoints/<training>/<step>-<digest>.safetensors, fingerprint.json

Each attempt writes into a folder of its own: a worker that was cut off and comes back cannot spoil those of the next.
The journal goes up before the checkpoint that it covers, and both come down. With an older journal, MLflow would get
the points in between twice, at other times.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bukva.base.errors import BukvaError
from bukva.base.files import project_root
from bukva.cluster.job import Job
from bukva.cluster.watch import journals_of
from bukva.durability.cleanup import checkpoints_root
from bukva.tracking.reading import Journal, journals_root
from bukva.tracking.records import FILE

ROOT = "bukva"  # beside DVC's folders on the remote
KEPT = 2  # checkpoints of a training, as on the disk
FINGERPRINT = "fingerprint.json"


class Carrier:
    """What one attempt of a trial sends, and what it gets from earlier ones.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        with _errors("read its settings"):
            self._fs, root = _remote()
        self._trial = self._fs.join(root, ROOT, job.commit, job.trial)
        self._folder = self._fs.join(self._trial, f"attempt-{job.attempt}")
        self._sent: dict[str, list[str]] = {}  # names of checkpoints by training, the oldest first

    def fetch(self) -> list[Path]:
        """Get the newest journals and checkpoints of earlier attempts; returns the folders of the journals.

        What this machine has already is kept: it is as new, because the last attempt was here.
        """
        fetched = []
        with _errors("give checkpoints"):
            for attempt in reversed(self._attempts()):
                for stage in self._names(attempt, "journals"):
                    kept = journals_root() / self._job.trial / stage
                    if not kept.exists():
                        self._get(self._fs.join(self._trial, attempt, "journals", stage, FILE), kept / FILE)
                        fetched.append(kept)
                for training in self._names(attempt, "checkpoints"):
                    if not list((checkpoints_root() / training).glob("*.safetensors")):
                        self._fetch_training(attempt, training)
        return fetched

    def send(self) -> None:
        """Send the journal of a training that has begun, and each new checkpoint, before it the journal again."""
        with _errors("take a checkpoint"):
            for journal in journals_of(self._job.trial, self._job.commit):
                if training := str(journal.start.get("training_id", "")):
                    if training not in self._sent:
                        self._send_journal(journal)
                    self._send_newest(journal, training, self._sent.setdefault(training, []))

    def finish(self) -> None:
        """Send whole journals with their artifacts, for the driver's project, and remove all checkpoints."""
        with _errors("take the journals"):
            for journal in journals_of(self._job.trial, self._job.commit):
                for file in sorted(path for path in journal.folder.rglob("*") if path.is_file()):
                    self._put(file, "journals", file.relative_to(journal.folder.parent).as_posix())
            for attempt in self._attempts():
                folder = self._fs.join(self._trial, attempt, "checkpoints")
                if self._fs.exists(folder):
                    self._fs.remove(folder, recursive=True)

    def _fetch_training(self, attempt: str, training: str) -> None:
        files = sorted(name for name in self._names(attempt, "checkpoints", training) if name.endswith(".safetensors"))
        for name in (FINGERPRINT, *files[-KEPT:]) if files else ():
            place = self._fs.join(self._trial, attempt, "checkpoints", training, name)
            self._get(place, checkpoints_root() / training / name)

    def _send_newest(self, journal: Journal, training: str, sent: list[str]) -> None:
        files = sorted((checkpoints_root() / training).glob("*.safetensors"))
        if not files or files[-1].name in sent:
            return
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            still = Path(folder) / files[-1].name
            try:
                shutil.copyfile(files[-1], still)
            except FileNotFoundError:  # a newer one has replaced it
                return
            self._send_journal(journal)  # as it is after the checkpoint was written: it covers it
            self._put(files[-1].with_name(FINGERPRINT), "checkpoints", f"{training}/{FINGERPRINT}")
            self._put(still, "checkpoints", f"{training}/{still.name}")
        sent.append(still.name)
        for old in sent[:-KEPT]:
            self._fs.remove(self._fs.join(self._folder, "checkpoints", training, old))
        del sent[:-KEPT]

    def _send_journal(self, journal: Journal) -> None:
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            lines = Path(folder) / FILE
            shutil.copyfile(journal.folder / FILE, lines)
            self._put(lines, "journals", f"{journal.folder.name}/{FILE}")

    def _attempts(self) -> list[str]:
        """Folders of attempts, the oldest first."""
        return sorted(self._list(self._trial), key=_number)

    def _names(self, *path: str) -> list[str]:
        return self._list(self._fs.join(self._trial, *path))

    def _list(self, folder: str) -> list[str]:
        if not self._fs.exists(folder):
            return []
        return [self._fs.name(path) for path in self._fs.ls(folder, detail=False)]

    def _put(self, file: Path, *path: str) -> None:
        """Send a file; it gets its name when it is complete."""
        place = self._fs.join(self._folder, *path)
        unfinished = f"{place}.part"
        self._fs.makedirs(self._fs.parent(place), exist_ok=True)
        self._fs.put_file(str(file), unfinished)
        self._fs.move(unfinished, place)

    def _get(self, place: str, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.part")
        self._fs.get_file(place, str(unfinished))
        unfinished.replace(file)


def fetch_journals(commit: str, names: list[str]) -> int:
    """Get the journals of finished trials that this project does not have; returns of how many trials.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    count = 0
    with _errors("give journals"):
        fs, root = _remote()
        for name in names:
            trial = fs.join(root, ROOT, commit, name)
            if (journals_root() / name).exists() or not fs.exists(trial):
                continue
            newest = max((fs.name(path) for path in fs.ls(trial, detail=False)), key=_number)
            unfinished = journals_root() / f".{name}.part"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            fs.get(fs.join(trial, newest, "journals"), str(unfinished))
            unfinished.rename(journals_root() / name)
            count += 1
    return count


def _number(attempt: str) -> int:
    return int(attempt.rpartition("-")[2])


def _remote() -> tuple[Any, str]:
    """The file system of the DVC remote, and its folder there."""
    from dvc.repo import Repo  # type: ignore[import-untyped]

    with Repo(str(project_root())) as repo:
        remote = repo.cloud.get_remote()
        return remote.fs, str(remote.path)


@contextlib.contextmanager
def _errors(what: str) -> Iterator[None]:
    """One sentence for whatever a file system or DVC raises."""
    from dvc.exceptions import DvcException  # type: ignore[import-untyped]

    try:
        yield
    except (DvcException, OSError, ValueError, EOFError) as error:
        raise BukvaError(
            f"DVC's remote does not {what}: {' '.join(str(error).split()) or type(error).__name__}."
        ) from None
