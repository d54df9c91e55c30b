"""How often test scores were shown: whoever looks often chooses by chance, so the number is printed beside them."""

from pathlib import Path
from typing import Any

from filelock import FileLock

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json

LOCK_SECONDS = 60


def count_look(text: str) -> int:
    """Count one more look at the scores on the test text with this digest; returns how many there were with it.

    Raises:
        BukvaError: the file of the counts cannot be read.
    """
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock"), timeout=LOCK_SECONDS):
        counts = _counts(path)
        counts[text] = counts.get(text, 0) + 1
        write_json(path, counts)
    return counts[text]


def looks(text: str) -> int:
    """How often scores on this test text were shown.

    Raises:
        BukvaError: the file of the counts cannot be read.
    """
    return _counts(_file()).get(text, 0)


def _file() -> Path:
    return project_root() / ".bukva" / "looks.json"


def _counts(path: Path) -> dict[str, int]:
    try:
        counts: Any = read_json(path) if path.exists() else {}
        return {text: int(count) for text, count in counts.items()}
    except (ValueError, TypeError, AttributeError):
        raise BukvaError(f"{path}: not the counts of looks at test scores; delete it, and they start at 0.") from None
