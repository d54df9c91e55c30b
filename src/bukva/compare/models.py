"""The trained models of revisions, as DVC's cache and the checkout have them."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bukva.compare.results import Result
from bukva.project.cache import cached_files
from bukva.project.stages import trained_models


def digest_of(result: Result, model: str) -> str:
    """DVC's digest of the folder of a model; "" if the revision has none."""
    trained = trained_models()[model]
    entry = result.lock.get(trained.stage)
    return entry.outs.get(trained.folder.as_posix(), "") if entry else ""


def model_files(result: Result, model: str) -> dict[str, Path]:
    """The files of a model's folder by their names in it; empty if neither the cache nor the checkout has them."""
    digest = digest_of(result, model)
    return cached_files(digest, trained_models()[model].folder.as_posix()) if digest else {}


@contextlib.contextmanager
def as_folder(files: Mapping[str, Path]) -> Iterator[Path]:
    """A folder with links to these files, which the cache keeps under other names; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        for name, file in files.items():
            (Path(folder) / name).symlink_to(file)
        yield Path(folder)
