"""Gives the trials of a sweep to workers, and repeats those that were lost.

What it knows is on the board and at the origin, so a driver that was killed can be started again: finished trials are
those whose result the origin has, and the others continue from their checkpoints.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bukva.cluster.board import Board, Entry, State, driving, log_of, take_stops
from bukva.cluster.job import DONE, FAILED, STOPPED, Job, News
from bukva.cluster.losing import start_ending
from bukva.cluster.origin import finished, push_base
from bukva.cluster.processes import Engine, Worker
from bukva.cluster.trials import Sweep, Trial
from bukva.cluster.watch import Pace, Progress

MOST_LOSSES = 3  # of one trial, in one run of the driver
LOOK_SECONDS = 0.25
WRITE_SECONDS = 1.0
ENDS: dict[int, State] = {DONE: "finished", FAILED: "failed", STOPPED: "stopped"}

Look = Callable[[Board], None]


@dataclass(frozen=True)
class Place:
    """Where trials start and results go.

    origin: the address of the repository that all machines share.
    project: the driver's project.
    shared: whether workers use this project's cache, journals and MLflow; they then run on its machine.
    environment: variables of the workers.
    """

    origin: str
    project: Path
    shared: bool
    environment: dict[str, str]


class Guide(Protocol):
    """Chooses trials while others run: a search."""

    def next(self) -> Trial | None:
        """One more trial; None if there is none."""
        ...

    def is_hopeless(self, name: str, entry: Entry) -> bool:
        """Whether a running trial should stop; called after each piece of news."""
        ...

    def ended(self, name: str, entry: Entry) -> None:
        """A trial has finished, failed, was pruned or was lost."""
        ...


class Driver:
    """Runs one sweep on one engine.

    Args:
        sweep: the trials that are known.
        place: where they start and where results go.
        engine: where workers run.
        look: is called with the board, at least each second.
        guide: chooses further trials; None for those of the sweep only.
    """

    def __init__(self, sweep: Sweep, place: Place, engine: Engine, look: Look, guide: Guide | None = None) -> None:
        self._sweep, self._place, self._engine, self._look, self._guide = sweep, place, engine, look, guide
        self._board = Board.of(sweep)
        self._pruned: set[str] = set()
        self._running: dict[str, tuple[Worker, float]] = {}
        self._losses: Counter[str] = Counter()
        self._paces = defaultdict[str, Pace](Pace)
        self._written = 0.0

    def run(self) -> Board:
        """Run all trials that have no result; returns how each ended.

        Raises:
            BukvaError: another driver runs this sweep, or the origin cannot be reached.
            KeyboardInterrupt: after all trainings have saved.
        """
        with driving(self._sweep.name):
            take_stops(self._sweep.name)  # of a former driver
            push_base(self._place.project, self._place.origin, self._sweep.commit)
            have = finished(self._place.project, self._place.origin, self._sweep.commit)
            for name, entry in self._board.trials.items():
                if name in have:
                    self._end(name, "finished", entry.text)
                elif entry.state == "pruned":
                    self._end(name, "pruned", entry.text)  # its last driver may have been killed before it said so
                elif entry.state == "finished":  # somebody removed its result
                    entry.state = "waiting"
            try:
                self._loop()
            finally:
                self._engine.close()
                self._collect()
                for name in self._running:  # of an engine that could not end them
                    self._board.trials[name].state = "waiting"
                self._board.write()
        return self._board

    def _loop(self) -> None:
        while self._running or self._board.count("waiting") or self._ask():
            self._stop(take_stops(self._sweep.name))
            self._start()
            self._collect()
            self._show()
            time.sleep(LOOK_SECONDS)
        self._show(at_once=True)

    def _ask(self) -> bool:
        """Add one more trial to the board, if the guide has one."""
        trial = self._guide.next() if self._guide else None
        if trial:
            self._board.trials[trial.name] = Entry(list(trial.settings))
        return trial is not None

    def _start(self) -> None:
        """Start what waits, and ask the guide for more, until the engine has no place left."""
        while True:
            waiting = next((item for item in self._board.trials.items() if item[1].state == "waiting"), None)
            if waiting is None:
                if self._guide and self._engine.has_place() and self._ask():
                    continue
                return
            name, entry = waiting
            worker = self._engine.start(self._job(name, entry))
            if worker is None:
                return
            entry.state, entry.node, entry.text = "running", worker.node, ""
            entry.attempt += 1
            self._running[name] = worker, time.monotonic()

    def _job(self, name: str, entry: Entry) -> Job:
        return Job(
            trial=name,
            settings=tuple(entry.settings),
            commit=self._sweep.commit,
            origin=self._place.origin,
            project=str(self._place.project) if self._place.shared else "",
            attempt=entry.attempt + 1,
            cores=self._engine.cores,
            environment=self._place.environment,
        )

    def _stop(self, names: set[str]) -> None:
        for name in names & self._board.trials.keys():
            if name in self._running:
                self._running[name][0].stop()
            elif self._board.trials[name].state == "waiting":
                self._board.trials[name].state = "stopped"

    def _collect(self) -> None:
        """Take the news of all workers, and what became of those that ended."""
        for name, (worker, since) in list(self._running.items()):
            status = worker.status()  # before the news: behind its end there are none
            entry = self._board.trials[name]
            entry.node = worker.node
            for news in map(News.from_json, worker.news()):
                self._take(name, entry, news)
            if status is not None:
                del self._running[name]
                self._judge(name, entry, status, since)

    def _take(self, name: str, entry: Entry, news: News) -> None:
        if news.kind == "progress":
            entry.progress = Progress(**news.values)
            entry.left = self._paces[name].left(entry.progress, time.monotonic())
            if self._guide and name not in self._pruned and self._guide.is_hopeless(name, entry):
                self._pruned.add(name)
                self._running[name][0].stop()
            return
        text = str(news.values["text"])
        path = log_of(self._sweep.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        if news.kind == "end":
            entry.text = text

    def _judge(self, name: str, entry: Entry, status: int, since: float) -> None:
        entry.seconds, entry.left = entry.seconds + time.monotonic() - since, 0.0
        if status in ENDS:
            state = ENDS[status]
            self._end(name, "pruned" if state == "stopped" and name in self._pruned else state, entry.text)
            return
        self._losses[name] += 1
        if not self._place.shared:
            start_ending(name, self._sweep.commit)
        if self._losses[name] < MOST_LOSSES:
            self._end(name, "waiting", "")
        else:
            why = entry.text or f"its worker ended with status {status}"
            self._end(name, "lost", f"{why} ({MOST_LOSSES} times)")

    def _end(self, name: str, state: State, text: str) -> None:
        entry = self._board.trials[name]
        entry.state, entry.text = state, text
        if self._guide and state not in ("waiting", "stopped"):  # those go on, now or later
            self._guide.ended(name, entry)

    def _show(self, *, at_once: bool = False) -> None:
        if at_once or time.monotonic() - self._written >= WRITE_SECONDS:
            self._written = time.monotonic()
            self._board.write()
            self._look(self._board)
