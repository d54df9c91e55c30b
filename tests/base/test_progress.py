"""The progress of a transfer on a terminal or in a log."""

import pytest

from bukva.base import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_transfer_shows_size_and_speed(clock, capsys):
    with progress.transfer("download ruslit") as show:
        clock[0] += 20
        show(5_000_000, 20_000_000)
        clock[0] += 20
        show(20_000_000, 20_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "download ruslit: 5.00MB of 20.0MB (25%), 250kB/s"
    assert lines[-1] == "download ruslit: 20.0MB, 500kB/s"
