"""A local server, and no mirror unless a test sets one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus.serving import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()
    with serving(served) as served.address:
        yield served


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    return tmp_path / "books"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "data" / "raw"


@pytest.fixture(autouse=True)
def no_mirror_and_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BUKVA_MIRROR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("bukva.corpus.sources.fetching.BACKOFF_SECONDS", 0)
