"""Workers that train one model together look like one worker, and end together."""

import pytest

from bukva.cluster import group as module
from bukva.cluster.group import Group
from bukva.cluster.job import DONE, FAILED, STOPPED, TRY_AGAIN, Job, News
from bukva.cluster.ray_engine import n_groups

LOST = -1
JOB = Job("try", ("train_gpt.processes=3",), "1" * 40, "origin.git", "", 1, 1, {"A": "1"})


class Member:
    """A worker that ends when the test says so."""

    def __init__(self, node: str) -> None:
        self.node, self.meeting = node, f"{node}:1234"
        self.job: Job | None = None
        self.ends: int | None = None
        self.released = self.stopped = False
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
        self.released, self.ends = True, LOST if self.ends is None else self.ends


@pytest.fixture
def members() -> list[Member]:
    return [Member(node) for node in ("first", "second", "third")]


@pytest.fixture
def freed() -> list[str]:
    return []


@pytest.fixture
def group(members, freed) -> Group:
    return Group(JOB, members, lambda: freed.append("freed"))


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time in seconds, which a test sets."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


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


def test_the_lines_of_the_first_are_those_of_the_trial_and_others_are_marked(group, members):
    group.news()
    members[0].says("log", "hello")
    members[1].says("log", "hi")
    members[1].says("end", "has trained its share")
    assert sorted(texts(group)) == [
        ("log", "[second] has trained its share"), ("log", "[second] hi"), ("log", "hello"),
    ]  # fmt: skip


def test_others_may_end_before_the_first_has_evaluated(group, members, freed, clock):
    group.news()
    members[1].ends = members[2].ends = DONE
    clock[0] = 1000.0
    assert group.status() is None
    assert not members[0].stopped
    members[0].ends = DONE
    assert group.status() == DONE
    assert freed == ["freed"]


def test_others_that_still_wait_are_stopped_when_the_first_has_its_result_from_the_run_cache(group, members, clock):
    group.news()
    members[0].ends = DONE
    assert group.status() is None
    assert members[1].stopped
    assert members[2].stopped
    members[1].ends = STOPPED
    clock[0] = module.GRACE_SECONDS + 1
    group.status()  # the third does not answer
    assert members[2].released
    assert group.status() == DONE


@pytest.mark.parametrize("lost", [LOST, TRY_AGAIN, -9])
def test_when_another_is_lost_the_first_notices_it_and_all_start_again(group, members, lost):
    group.news()
    members[1].says("end", "its card is down")
    members[1].ends = lost
    group.news()
    members[0].ends = TRY_AGAIN
    members[2].ends = TRY_AGAIN
    assert ("end", "[second] its card is down") in texts(group)
    assert group.status() == lost


def test_a_first_that_does_not_notice_it_is_stopped_once_after_a_while(group, members, clock):
    group.news()
    members[2].ends = LOST
    group.news()
    assert not members[0].stopped
    clock[0] = module.GRACE_SECONDS + 1
    group.news()
    assert members[0].stopped
    members[0].stopped = False
    group.news()
    assert not members[0].stopped  # a second signal would end it before it has saved
    members[0].ends, members[1].ends = STOPPED, STOPPED
    group.news()
    assert group.status() == LOST  # not that of a trial that was cancelled


def test_a_failure_of_another_is_the_failure_of_all(group, members, clock):
    group.news()
    members[1].says("end", "torch is 2.12.0 here")
    members[1].ends = FAILED
    group.news()
    clock[0] = module.GRACE_SECONDS + 1
    group.news()
    members[0].says("end", "stopped")
    members[0].ends = STOPPED
    members[2].ends = STOPPED
    assert texts(group)[-2:] == [("end", "stopped"), ("end", "[second] torch is 2.12.0 here")]
    assert group.status() == FAILED


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


def test_a_trial_that_is_stopped_is_stopped_whatever_others_say(group, members):
    group.news()
    group.stop()
    assert members[0].stopped
    members[0].stopped = False
    group.stop()
    assert not members[0].stopped
    members[1].ends = TRY_AGAIN
    group.news()
    members[0].ends = STOPPED
    members[2].ends = TRY_AGAIN
    group.news()
    assert group.status() == STOPPED


def test_one_that_is_stopped_before_it_has_machines_gives_them_back(group, members, freed):
    members[1].meeting = ""
    group.stop()
    assert group.status() == STOPPED
    assert freed == ["freed"]
    assert [member.job for member in members] == [None] * 3


def test_a_machine_that_is_lost_before_all_have_begun_ends_the_group(group, members, freed):
    members[1].meeting = ""
    members[2].ends = LOST
    assert group.is_placed
    assert group.status() == LOST
    assert freed == ["freed"]


@pytest.mark.parametrize(
    ("places", "size", "groups"),
    [
        ([1, 1, 1], 2, 1),
        ([4, 1], 2, 1),
        ([3, 3], 2, 3),
        ([5, 3, 1], 3, 1),
        ([2, 2, 2], 2, 3),
        ([7], 2, 0),
        ([2, 5], 1, 7),
    ],
)
def test_groups_are_counted_by_machines_not_by_cores(places, size, groups):
    assert n_groups(places, size) == groups
