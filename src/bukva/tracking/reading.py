"""Reads journals, also while they grow."""

import contextlib
import fcntl
import filecmp
from dataclasses import dataclass
from pathlib import Path

from bukva.core.files import project_root, read_json
from bukva.tracking.records import ADOPTED, FILE, Record, parse, to_line

TAIL_BYTES = 16384  # enough for the longest end record


@dataclass(frozen=True)
class Journal:
    """One journal: its folder and its start record."""

    folder: Path
    start: Record

    @property
    def id(self) -> str:
        """Unique among all journals of all machines."""
        return str(self.start["id"])

    @property
    def key(self) -> str:
        """The key of its experiment."""
        return str(self.start["key"])

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.stat().st_size

    def read(self, offset: int = 0) -> tuple[list[Record], int]:
        """The complete records from byte `offset` on, and the offset behind the last of them."""
        with self._file.open("rb") as file:
            file.seek(offset)
            new = file.read()
        complete = new[: new.rfind(b"\n") + 1]  # a line without an end is still being written
        records = filter(None, map(parse, complete.splitlines()))
        return [self.start if record["record"] == "start" else record for record in records], offset + len(complete)

    def status(self) -> tuple[str, int | None]:
        """RUNNING and None, or how the execution ended and when, in milliseconds since 1970."""
        with self._file.open("rb") as file:
            abandoned = _is_unlocked(file.fileno())  # before looking for the end: an unlocked file does not grow
            end = self._end()
        if end:
            return str(end["status"]), int(end["at"])
        return ("KILLED", self._modified_at()) if abandoned else ("RUNNING", None)

    def close_if_killed(self) -> bool:
        """Write the end record of a journal whose process was killed; return whether its process was killed."""
        if self._end():
            return False
        with self._file.open("ab", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # the process is alive
                return False
            file.write(b"\n" + to_line("end", self._modified_at(), status="KILLED", note="Its process was killed."))
        return True

    def _end(self) -> Record | None:
        with self._file.open("rb") as file:
            file.seek(max(0, self.size - TAIL_BYTES))
            last = parse(file.read().rstrip().rpartition(b"\n")[2])
        return last if last and last["record"] == "end" else None

    def _modified_at(self) -> int:
        return self._file.stat().st_mtime_ns // 1_000_000

    @property
    def _file(self) -> Path:
        return self.folder / FILE


def journals_root() -> Path:
    """The folder of all journals: in the original repository, also when a stage runs in a snapshot."""
    return project_root() / ".bukva" / "journal"


def read_journals(experiment: str = "*") -> list[Journal]:
    """All journals, or those of one experiment, in the order in which they began."""
    journals = [open_journal(file.parent) for file in journals_root().glob(f"{experiment}/*/{FILE}")]
    return sorted(filter(None, journals), key=lambda journal: (journal.start["at"], journal.id))


def open_journal(folder: Path) -> Journal | None:
    """The journal in a folder; None if its first line is incomplete because its process was killed at once."""
    try:
        with (folder / FILE).open("rb") as file:
            start = parse(file.readline())
        adopted = read_json(folder / ADOPTED) if (folder / ADOPTED).exists() else {}
    except FileNotFoundError:
        return None
    return Journal(folder, start | adopted) if start and start["record"] == "start" else None


def has_present_files(journal: Journal) -> bool:
    """Whether the artifacts of a journal are the files that are in the checkout now."""
    return all(
        _same(journal.folder / "artifacts" / record["path"], Path(record["source"]))
        for record in journal.read()[0]
        if record["record"] == "artifact" and record["source"] and Path(record["source"]).exists()
    )


def _same(kept: Path, present: Path) -> bool:
    if not present.is_dir():
        return kept.is_file() and filecmp.cmp(kept, present, shallow=False)
    names = sorted(entry.name for entry in present.iterdir())
    return (
        kept.is_dir()
        and names == sorted(entry.name for entry in kept.iterdir())
        and all(_same(kept / name, present / name) for name in names)
    )


def new_folder(experiment: str, stage: str) -> Path:
    """A new folder for a journal; of several processes that try the same number, mkdir succeeds in one."""
    parent = journals_root() / experiment
    parent.mkdir(parents=True, exist_ok=True)
    number = len(list(parent.glob(f"{stage}-*")))
    while True:
        number += 1
        with contextlib.suppress(FileExistsError):
            folder = parent / f"{stage}-{number:03d}"
            folder.mkdir()
            return folder


def _is_unlocked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
