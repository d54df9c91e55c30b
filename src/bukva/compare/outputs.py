"""The outputs of a revision as files, as if it were checked out: all that a report needs, or one model."""

import contextlib
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from bukva.compare.results import Result
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import cached_files
from bukva.project.commands import rerun
from bukva.project.revisions import read_blobs
from bukva.project.stages import trained_models


@contextlib.contextmanager
def as_checkout(result: Result, needed: Collection[str]) -> Iterator[Path]:
    """A folder with these outputs of a revision: the project, or a temporary one with links into DVC's cache.

    needed: paths of dvc.yaml; those that the revision does not have are absent.

    Raises:
        BukvaError: the revision has one whose files are neither in git nor in DVC's cache.
    """
    if result.revision.is_workspace:
        yield project_root()
        return
    recorded = {path: md5 for entry in result.lock.values() for path, md5 in entry.outs.items() if path in needed}
    in_git = {path: blob for (_, path), blob in read_blobs((result.revision.commit, path) for path in recorded).items()}
    with tempfile.TemporaryDirectory(prefix="bukva-") as name:
        folder = Path(name)
        for path, digest in recorded.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if path in in_git:
                (folder / path).write_bytes(in_git[path])
            elif files := cached_files(digest):
                _link(folder / path, files)
            else:
                raise BukvaError(
                    f"{result.revision.name}: {path} is not in DVC's cache; fetch it with `dvc pull --all-commits`, or "
                    f"run `{rerun(result.revision.name, result.params)}`."
                )
        yield folder


def _link(output: Path, files: Mapping[str, Path]) -> None:
    """Let an output that is a folder or a file consist of these files, which the cache keeps under other names."""
    for name, file in files.items():
        place = output / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(file)


def digest_of(result: Result, model: str) -> str:
    """DVC's digest of the folder of a model; "" if the revision has none."""
    trained = trained_models()[model]
    entry = result.lock.get(trained.stage)
    return entry.outs.get(trained.folder.as_posix(), "") if entry else ""


def model_files(result: Result, model: str) -> dict[str, Path]:
    """The files of a model's folder by their names in it; empty if DVC's cache lacks some."""
    digest = digest_of(result, model)
    return cached_files(digest) if digest else {}


@contextlib.contextmanager
def as_folder(files: Mapping[str, Path]) -> Iterator[Path]:
    """A folder with links to these files, which the cache keeps under other names; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        _link(Path(folder), files)
        yield Path(folder)
