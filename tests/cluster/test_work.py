"""A worker tries again while what all machines share is away, and then leaves the trial to another one."""

import pytest

from bukva.base.errors import BukvaError, LostError
from bukva.cluster import work


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(work, "LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(work, "PUSH_SECONDS", 0.1)


def test_a_remote_that_comes_back_is_used_and_each_failure_is_news():
    said, errors = [], [BukvaError("The remote is away."), BukvaError("The remote is still away.")]

    def call() -> str:
        if errors:
            raise errors.pop(0)
        return "answer"

    assert work._patiently(call, said.append) == "answer"
    assert [news.values["text"] for news in said] == [
        "The remote is away. It is tried again.",
        "The remote is still away. It is tried again.",
    ]


def test_a_remote_that_stays_away_is_no_failure_of_the_trial():
    def call() -> None:
        raise BukvaError("The remote is away.")

    with pytest.raises(LostError, match=r"^The remote is away\.$"):
        work._patiently(call, lambda _: None)
