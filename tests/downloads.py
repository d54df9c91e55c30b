"""Downloads for tests: section download of params.yaml, and files and archives of texts."""

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bukva.core.params import read_yaml
from bukva.core.schema import Download
from bukva.corpus.sources.download import download
from tests.support.imports import SHIPPED


def download_params(**changes: object) -> Download:
    """Your own texts from no place yet, with some keys changed; paths become text."""
    changes = {"corpus": "local", **changes, "path": str(changes.get("path", "-"))}
    return Download.model_validate(read_yaml(SHIPPED)["download"] | changes)


def get(
    target: Path, corpus: str = "local", note: Callable[[str], object] = pytest.fail, **changes: object
) -> dict[str, int]:
    """Download into `target`; a note fails the test unless it takes notes."""
    return download(download_params(corpus=corpus, **changes), target, lambda *_: None, note)


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def tar_gz(files: Mapping[str, str | bytes | tarfile.TarInfo], mode: str = "w:gz") -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode=mode) as tar:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            content = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()
