"""The short form of `make chaos`: each fault a few times."""

import pytest

from chaos.rows import ROWS
from chaos.scene import Scene

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return Scene(tmp_path_factory.mktemp("chaos"))


@pytest.mark.parametrize("row", [row for row in ROWS if row.few], ids=lambda row: row.name)
def test_nothing_is_lost(scene, row):
    assert [fault for fault in row.lost(scene, row.few) if fault] == []
