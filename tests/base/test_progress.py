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


def test_work_shows_the_share_of_its_characters_and_the_speed(clock, capsys):
    with progress.counting("clean", 20_000_000) as show:
        for _ in range(4):
            clock[0] += 10
            show(3_000_000)
    assert capsys.readouterr().err.splitlines() == [
        "clean: 6.00M of 20.0M (30%) characters, 300k/s",
        "clean: 9.00M of 20.0M (45%) characters, 300k/s",
        "clean: 12.0M of 20.0M (60%) characters, 300k/s",
        "clean: 12.0M characters, 300k/s",
    ]


def test_short_work_shows_nothing(clock, capsys):
    assert list(progress.watched(["раз", "два"], "tokenize", 6)) == ["раз", "два"]
    with progress.counting("clean", 7) as show:
        clock[0] += 7
        show(7)
    assert capsys.readouterr().err == ""
