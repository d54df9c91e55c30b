"""Workers that train one model together look like one worker, and end together."""

import pytest

from bukva.cluster.group import Group
from bukva.cluster.job import FAILED, TRY_AGAIN, Job, News

LOST = -1
JOB = Job("try", ("train_gpt.processes=3",), "1" * 40, "origin.git", "", 1, 1, {"A": "1"})


class Member:
    """A worker that ends when the test says so."""

    def __init__(self, node: str) -> None:
        self.node, self.meeting = node, f"{node}:1234"
        self.job: Job | None = None
        self.ends: int | None = None
        self.stopped = False
        self._lines: list[str] = []

    def begin(self, job: Job) -> None:
        self.job = job

    def says(self, kind: str, text: str) -> None:
        self._lines.append(News(kind, {"text": text}).to_json())

    def news(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines

    def status(self) -> int | None:
        return None if self._lines else self.ends

    def stop(self) -> None:
        self.stopped = True

    def release(self) -> None:
        self.ends = LOST if self.ends is None else self.ends


@pytest.fixture
def members() -> list[Member]:
    return [Member(node) for node in ("first", "second", "third")]


@pytest.fixture
def group(members) -> Group:
    return Group(JOB, members, lambda: None)


def texts(group: Group) -> list[tuple[str, str]]:
    return [(news.kind, news.values["text"]) for news in map(News.from_json, group.news())]


def test_all_begin_when_all_have_a_machine_with_the_variables_of_torchrun(group, members):
    members[2].meeting = ""
    assert group.status() is None
    assert not group.is_placed
    assert [member.job for member in members] == [None] * 3
    members[2].meeting = "third:1234"
    assert group.status() is None
    assert group.is_placed
    assert group.node == "first + second + third"
    for rank, member in enumerate(members):
        assert member.job.trial == "try"
        assert member.job.environment == {
            "A": "1", "PET_NNODES": "3", "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": "first",
            "PET_MASTER_PORT": "1234", "PET_RDZV_CONF": "timeout=3600",
        }  # fmt: skip


def test_when_another_is_lost_the_first_notices_it_and_all_start_again(group, members):
    group.news()
    members[1].says("end", "its card is down")
    members[1].ends = LOST
    group.news()
    members[0].ends = TRY_AGAIN
    members[2].ends = TRY_AGAIN
    assert ("end", "[second] its card is down") in texts(group)
    assert group.status() == LOST


def test_a_failure_of_the_first_counts_although_others_lost_it(group, members):
    group.news()
    members[1].ends = TRY_AGAIN
    group.news()
    members[0].says("end", "diverged")
    members[0].ends = FAILED
    members[2].ends = TRY_AGAIN
    assert texts(group) == [("end", "diverged")]
    assert texts(group) == []
    assert group.status() == FAILED
