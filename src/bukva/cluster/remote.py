"""Files of the cluster on the DVC remote, which all machines reach with the settings of DVC: below bukva/."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import project_root

ROOT = "bukva"  # beside DVC's folders on the remote


class Remote:
    """The remote of this project; a path there is given by its parts.

    Raises:
        BukvaError: there is none, or it does not answer; so do all methods.
    """

    def __init__(self) -> None:
        with _errors("read its settings"):
            self._fs, self._root = _remote()

    def names(self, *path: str) -> list[str]:
        """What a folder has; nothing if there is none."""
        folder = self._place(path)
        with _errors("list checkpoints"):
            if not self._fs.exists(folder):
                return []
            return [self._fs.name(each) for each in self._fs.ls(folder, detail=False)]

    def put(self, file: Path, *path: str) -> None:
        """Send a file; it gets its name when it is complete."""
        place = self._place(path)
        unfinished = f"{place}.part"
        with _errors(f"take {path[-1]}"):
            self._fs.makedirs(self._fs.parent(place), exist_ok=True)
            self._fs.put_file(str(file), unfinished)
            self._fs.move(unfinished, place)

    def get(self, file: Path, *path: str) -> None:
        """Get a file; it gets its name when it is complete."""
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(f".{file.name}.part")
        with _errors(f"give {path[-1]}"):
            self._fs.get_file(self._place(path), str(unfinished))
        unfinished.replace(file)

    def get_folder(self, folder: Path, *path: str) -> None:
        """Get a folder with all that is below it."""
        with _errors(f"give {path[-1]}"):
            self._fs.get(self._place(path), str(folder))

    def exists(self, *path: str) -> bool:
        """Whether it has a file or a folder of this name."""
        with _errors(f"say whether it has {path[-1]}"):
            return bool(self._fs.exists(self._place(path)))

    def remove(self, *path: str) -> None:
        """Remove a file, or a folder with all that is below it; nothing if it is missing."""
        place = self._place(path)
        with _errors(f"remove {path[-1]}"):
            if self._fs.exists(place):
                self._fs.remove(place, recursive=True)

    def _place(self, path: tuple[str, ...]) -> str:
        return str(self._fs.join(self._root, ROOT, *path))


def _remote() -> tuple[Any, str]:
    """The file system of the DVC remote, and its folder there."""
    from dvc.repo import Repo

    with Repo(str(project_root())) as repo:
        remote = repo.cloud.get_remote()
        return remote.fs, str(remote.path)


@contextlib.contextmanager
def _errors(what: str) -> Iterator[None]:
    """One sentence for whatever a file system or DVC raises."""
    from dvc.exceptions import DvcException

    try:
        yield
    except (DvcException, OSError, ValueError, EOFError) as error:
        raise BukvaError(
            f"DVC's remote does not {what}: {' '.join(str(error).split()) or type(error).__name__}."
        ) from None
