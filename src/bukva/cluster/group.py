"""Workers on several machines that train one model together; for the driver they are one worker.

The first runs the experiment. When it ends, all end. When another ends too early, the training cannot go on: the first
notices it, or is stopped after a while, and the driver starts them all again, from the last checkpoint.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bukva.cluster.job import DONE, FAILED, STOPPED, Job, News
from bukva.cluster.processes import Worker
from bukva.cluster.together import variables

GRACE_SECONDS = 60.0  # longer than a training waits for a machine that does not answer (training/parallel.py)


class Member(Worker, Protocol):
    """One of the workers; its machine is chosen before it begins."""

    @property
    def meeting(self) -> str:
        """HOST:PORT of its machine, where the others can find it; "" while no machine is chosen."""
        ...

    def begin(self, job: Job) -> None:
        """Start the worker's program."""
        ...

    def release(self) -> None:
        """End it, and what is left of it."""
        ...


@dataclass(frozen=True)
class Ending:
    """Another than the first has ended too early: its status, its last words, and when that was noticed."""

    status: int
    text: str
    at: float


class Group:
    """Begins when all machines are there.

    Args:
        job: the trial.
        members: one on each machine; the first runs the experiment.
        free: called at the end, to give the machines back.
    """

    def __init__(self, job: Job, members: Sequence[Member], free: Callable[[], None]) -> None:
        self._job, self._free = job, free
        self._first, *self._others = members
        self._members = members
        self._lines: list[str] = []
        self._cause: Ending | None = None
        self._ended_at: float | None = None  # of the first
        self._began = self._stopped = self._asked = self._released = False

    @property
    def node(self) -> str:
        """The names of all machines."""
        return " + ".join(member.node for member in self._members if member.node)

    @property
    def is_placed(self) -> bool:
        """Whether all machines are chosen, or it has ended."""
        return self._began or self.status() is not None

    def news(self) -> list[str]:
        """The lines of the first, and what the others printed, with the names of their machines."""
        self._look()
        lines, self._lines = self._lines, []
        return lines

    def status(self) -> int | None:
        """That of the first, or of another that ended too early; None while one runs, or while lines are unread."""
        self._look()
        statuses = [member.status() for member in self._members]
        if self._lines or None in statuses:
            return None
        self.release()
        if self._stopped and not self._began:
            return STOPPED
        return self._cause.status if self._cause and self._is_cause() else statuses[0]

    def stop(self) -> None:
        """Let the first save and end."""
        self._stopped = True
        if self._began:
            self._stop_first()
        else:
            self.release()

    def release(self) -> None:
        """End all, and give the machines back."""
        if not self._released:
            self._released = True
            for member in self._members:
                member.release()
            self._free()

    def _look(self) -> None:
        if not self._began:
            self._begin_when_placed()
        for member in self._others:
            self._read(member)
        self._lines += self._first.news()
        self._end_those_left()

    def _begin_when_placed(self) -> None:
        if any(member.status() is not None for member in self._members):
            self.release()  # a machine was lost before it began
        elif all(member.meeting for member in self._members):
            self._began = True
            for rank, member in enumerate(self._members):
                own = variables(self._first.meeting, len(self._members), rank)
                member.begin(replace(self._job, environment=self._job.environment | own))

    def _read(self, member: Member) -> None:
        said = ""
        for news in map(News.from_json, member.news()):
            if "text" in news.values:
                said = f"[{member.node}] {news.values['text']}"
                self._lines.append(News("log", {"text": said}).to_json())
        status = member.status()
        if self._cause is None and self._ended_at is None and status not in (None, DONE):
            self._cause = Ending(status, said, time.monotonic())

    def _end_those_left(self) -> None:
        """Nobody needs the others when the first has ended; the first itself notices that another is lost."""
        now = time.monotonic()
        if self._first.status() is not None:
            if self._ended_at is None:
                self._ended_at = now
                for member in self._others:
                    member.stop()
                if self._cause and self._cause.text and self._is_cause():
                    self._lines.append(News("end", {"text": self._cause.text}).to_json())
            elif now - self._ended_at > GRACE_SECONDS:
                self.release()
        elif self._cause and now - self._cause.at > GRACE_SECONDS:
            self._stop_first()

    def _stop_first(self) -> None:
        """Once: a second signal would end it before it has saved."""
        if not self._asked:
            self._asked = True
            self._first.stop()

    def _is_cause(self) -> bool:
        """Whether it has ended because another did."""
        return not self._stopped and self._first.status() not in (DONE, FAILED)
