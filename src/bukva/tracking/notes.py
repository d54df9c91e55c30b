"""Notes on a whole experiment, made after its stages have ended: tags, sections of its description, and files.

They are kept beside the journals of the experiment, and MLflow gets them from there as it gets the journals (sync.py).
So whoever makes a note needs no MLflow, and every store that is filled later has it too.
"""

import dataclasses
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from bukva.core.files import atomic_file, read_json, sha256, write_json
from bukva.tracking.reading import journals_root, read_journals

FILE = "notes.json"  # the notes of all experiments that had this name, by their keys
FILES = "files"
LOCK_SECONDS = 10
MOST_SECTIONS = 20  # of one experiment; no more of them fit into MLflow's description


@dataclass(frozen=True)
class Notes:
    """Tags by name; sections (Markdown) by title, in the order in which they were made first; digests of files by name.

    The files themselves are in files_folder.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def annotate(experiment: str, tags: Mapping[str, str], key: str = "") -> bool:
    """Keep tags for MLflow's run of a whole experiment, beside those that it has; an equal name replaces the value.

    Fills no MLflow: background.start_sync does. An error of the disk is printed and not raised.

    Args:
        experiment: its name.
        tags: texts by name. The description has add_section.
        key: tells experiments of one name apart (experiment.py); without it, the one that began last is meant.

    Returns:
        Whether they are kept; False if no stage of this experiment has a journal here.
    """
    return _change(experiment, key, lambda notes: dataclasses.replace(notes, tags={**notes.tags, **tags}))


def add_section(experiment: str, title: str, markdown: str, key: str = "") -> bool:
    """Keep a section for the description of a whole experiment; one of the same title is replaced where it stands.

    As annotate. The oldest sections are forgotten when there are more than MOST_SECTIONS.
    """
    return _change(experiment, key, lambda notes: _with_section(notes, title, markdown))


def attach(experiment: str, key: str, file: Path) -> bool:
    """Keep a file for the artifacts of MLflow's run of a whole experiment; one of the same name is replaced.

    As annotate.
    """

    def change(notes: Notes) -> Notes:
        kept = files_folder(journals_root() / experiment, key) / file.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(kept) as unfinished:
            shutil.copyfile(file, unfinished)
        return dataclasses.replace(notes, files={**notes.files, file.name: sha256(kept)})

    return _change(experiment, key, change)


def files_folder(folder: Path, key: str) -> Path:
    """Where the files of the experiment of this key are, in the folder of its journals."""
    return folder / FILES / key


def read_notes(folder: Path, key: str) -> Notes:
    """The notes on the experiment of this key, kept in the folder of its journals.

    Raises:
        KeyError, ValueError: the file is not one that bukva wrote.
    """
    kept = _read(folder).get(key, dataclasses.asdict(Notes()))
    return Notes(kept["tags"], kept["sections"], kept.get("files", {}))


def _change(experiment: str, key: str, change: Callable[[Notes], Notes]) -> bool:
    try:
        keys = [journal.key for journal in read_journals(experiment)]
        if not keys or (key and key not in keys):
            return False
        _rewrite(journals_root() / experiment, key or keys[-1], change)
    except (OSError, KeyError, ValueError) as error:
        print(f"MLflow will lack a note on {experiment}: it cannot be kept, {error}.", file=sys.stderr)
        return False
    return True


def _rewrite(folder: Path, key: str, change: Callable[[Notes], Notes]) -> None:
    with FileLock(folder / f".{FILE}.lock", timeout=LOCK_SECONDS):
        before = read_notes(folder, key)
        after = change(before)
        if after != before:
            write_json(folder / FILE, _read(folder) | {key: dataclasses.asdict(after)})


def _with_section(notes: Notes, title: str, markdown: str) -> Notes:
    sections = {**notes.sections, title: markdown}
    return dataclasses.replace(notes, sections=dict(list(sections.items())[-MOST_SECTIONS:]))


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    return dict(read_json(path)) if path.exists() else {}
