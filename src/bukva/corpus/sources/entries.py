"""What a folder may have beside files of text: names that are no text, and entries that nobody can read to the end."""

import os
import stat
from pathlib import Path

from bukva.corpus.sources.formats.base import UnreadableError

SPECIAL = "is a pipe, a socket or a device"


def is_special(path: Path) -> bool:
    """Whether reading may wait for ever; what does not exist is nothing of this kind."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_name(path: str, place: str) -> None:
    """Raise if a path is not UTF-8; `place` is what the error names.

    Raises:
        UnreadableError: it is not.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UnreadableError(place, "this file name is not UTF-8", "rename the file") from None


def check_for_dvc(path: str) -> None:
    """Raise where DVC, which reads everything in download.path before stage download does, would fail or wait for ever.

    Raises:
        UnreadableError: a name is not UTF-8; or a file is a pipe, a socket, a device, or a link that leads nowhere.
    """
    entries = [Path(path)]
    for folder, folders, files in os.walk(path):
        folders.sort()
        entries += [Path(folder, name) for name in sorted(folders + files)]
    for entry in entries:
        check_name(str(entry), str(entry))
        if is_special(entry):
            raise UnreadableError(str(entry), SPECIAL, "remove it")
        if entry != entries[0] and not entry.exists():
            raise UnreadableError(str(entry), "is a link that leads nowhere", "remove it")
