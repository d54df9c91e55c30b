"""Checkpoints and journals of a trial travel, so that another machine can continue it.

They lie on the DVC remote, beside its objects (remote.py):

    <remote>/bukva/<commit>/<trial>/attempt-N/
        journals/<stage>-001/journal.jsonl      of trainings, up to the newest checkpoint; of all stages at the end
        checkpoints/<training>/<step>-<digest>.safetensors, fingerprint.json

Each attempt writes into a folder of its own: a worker that was cut off and comes back cannot spoil those of the next.
The journal goes up before the checkpoint that it covers, and both come down. With an older journal, MLflow would get
the points in between twice, at other times.
"""

import shutil
import tempfile
from pathlib import Path

from bukva.cluster.job import Job
from bukva.cluster.remote import Remote
from bukva.cluster.watch import journals_of
from bukva.durability.checkpoints import checkpoints_root
from bukva.tracking.journal import FILE, Journal, journals_root

KEPT = 2  # checkpoints of a training, as on the disk
FINGERPRINT = "fingerprint.json"


class Carrier:
    """What one attempt of a trial sends, and what it gets from earlier ones.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer; so do all methods.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._remote = Remote()
        self._trial = job.commit, job.trial
        self._own = *self._trial, f"attempt-{job.attempt}"
        self._sent: dict[str, list[str]] = {}  # names of checkpoints by training, the oldest first

    def fetch(self) -> list[Path]:
        """Get the newest journals and checkpoints of earlier attempts; returns the folders of the journals.

        What this machine has already is kept: it is as new, because the last attempt was here.
        """
        fetched = []
        for attempt in reversed(self._attempts()):
            journals, checkpoints = (*self._trial, attempt, "journals"), (*self._trial, attempt, "checkpoints")
            for stage in self._remote.names(*journals):
                kept = journals_root() / self._job.trial / stage
                if not kept.exists():
                    self._remote.get(kept / FILE, *journals, stage, FILE)
                    fetched.append(kept)
            for training in self._remote.names(*checkpoints):
                if not list((checkpoints_root() / training).glob("*.safetensors")):
                    self._fetch_training(*checkpoints, training)
        return fetched

    def send(self) -> None:
        """Send the journal of a training that has begun, and each new checkpoint, before it the journal again."""
        for journal in journals_of(self._job.trial, self._job.commit):
            if training := str(journal.start.get("training_id", "")):
                if training not in self._sent:
                    self._send_journal(journal)
                self._send_newest(journal, training, self._sent.setdefault(training, []))

    def finish(self) -> None:
        """Send whole journals with their artifacts, for the driver's project, and remove all checkpoints."""
        for journal in journals_of(self._job.trial, self._job.commit):
            for file in sorted(path for path in journal.folder.rglob("*") if path.is_file()):
                self._remote.put(file, *self._own, "journals", *file.relative_to(journal.folder.parent).parts)
        for attempt in self._attempts():
            self._remote.remove(*self._trial, attempt, "checkpoints")

    def _fetch_training(self, *path: str) -> None:
        files = sorted(name for name in self._remote.names(*path) if name.endswith(".safetensors"))
        for name in (FINGERPRINT, *files[-KEPT:]) if files else ():
            self._remote.get(checkpoints_root() / path[-1] / name, *path, name)

    def _send_newest(self, journal: Journal, training: str, sent: list[str]) -> None:
        files = sorted((checkpoints_root() / training).glob("*.safetensors"))
        if not files or files[-1].name in sent:
            return
        place = *self._own, "checkpoints", training
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            still = Path(folder) / files[-1].name
            try:
                shutil.copyfile(files[-1], still)
            except FileNotFoundError:  # a newer one has replaced it
                return
            self._send_journal(journal)  # as it is after the checkpoint was written: it covers it
            self._remote.put(files[-1].with_name(FINGERPRINT), *place, FINGERPRINT)
            self._remote.put(still, *place, still.name)
        sent.append(still.name)
        for old in sent[:-KEPT]:
            self._remote.remove(*place, old)
        del sent[:-KEPT]

    def _send_journal(self, journal: Journal) -> None:
        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            lines = Path(folder) / FILE
            shutil.copyfile(journal.folder / FILE, lines)
            self._remote.put(lines, *self._own, "journals", journal.folder.name, FILE)

    def _attempts(self) -> list[str]:
        """Folders of attempts, the oldest first."""
        return sorted(self._remote.names(*self._trial), key=_number)


def fetch_journals(commit: str, names: list[str]) -> int:
    """Get the journals of finished trials that this project does not have; returns of how many trials.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    count, remote = 0, Remote()
    for name in names:
        if (journals_root() / name).exists() or not (attempts := remote.names(commit, name)):
            continue
        unfinished = journals_root() / f".{name}.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        remote.get_folder(unfinished, commit, name, max(attempts, key=_number), "journals")
        unfinished.rename(journals_root() / name)
        count += 1
    return count


def _number(attempt: str) -> int:
    return int(attempt.rpartition("-")[2])
