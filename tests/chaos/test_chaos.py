"""The short form of `make chaos`: some faults, once or twice each."""

import pytest

from chaos.rows import ROWS
from chaos.setup import Setup

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return Setup(tmp_path_factory.mktemp("chaos"))


@pytest.mark.parametrize("row", [row for row in ROWS if row.tries_in_tests], ids=lambda row: row.name)
def test_nothing_is_lost(setup, row):
    assert [fault for fault in row.verdicts(setup, row.tries_in_tests) if fault] == []
