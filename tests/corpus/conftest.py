"""A local server, and no mirror unless a test sets one."""

import tracemalloc
from collections.abc import Callable, Iterator
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


@pytest.fixture
def peak_memory() -> Iterator[Callable[[], int]]:
    """The function returned gives the peak memory of Python and numpy since the test began, in bytes."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


@pytest.fixture(autouse=True)
def no_mirror_and_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BUKVA_MIRROR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("bukva.corpus.sources.fetching.BACKOFF_SECONDS", 0)
