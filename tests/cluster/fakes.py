"""A cluster without machines: workers that end at once, as the tests want."""

from collections.abc import Callable
from pathlib import Path

from bukva.cluster.board import Board
from bukva.cluster.driver import Driver, Place
from bukva.cluster.job import DONE, STOPPED, Job, News
from bukva.cluster.origin import result_ref, run_git
from bukva.cluster.trials import Sweep, Trial


class FakeWorker:
    """Ends at once, with a status of our choice; one that has none runs until it is stopped."""

    node = "fake"

    def __init__(self, lines: list[News], status: int | None) -> None:
        self._lines, self._status = [news.to_json() for news in lines], status

    def news(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines

    def status(self) -> int | None:
        return self._status

    def stop(self) -> None:
        self._status = STOPPED


class FakeEngine:
    """A cluster of so many places, whose workers do what `play` says."""

    cores = 1

    def __init__(self, play: Callable[[Job], FakeWorker], places: int = 2) -> None:
        self.play, self.places = play, places
        self.jobs: list[Job] = []
        self.workers: list[FakeWorker] = []
        self.closed = False

    def has_place(self) -> bool:
        return sum(worker.status() is None for worker in self.workers) < self.places

    def start(self, job: Job) -> FakeWorker | None:
        if not self.has_place():
            return None
        self.jobs.append(job)
        self.workers.append(self.play(job))
        return self.workers[-1]

    def close(self) -> None:
        self.closed = True
        for worker in self.workers:
            if worker.status() is None:
                worker.stop()


def sweep_of(project: Path, *names: str) -> Sweep:
    commit = run_git(project, "rev-parse", "HEAD").strip()
    return Sweep("tries", commit, tuple(Trial(name, (f"train_gpt.seed={i}",)) for i, name in enumerate(names)))


def place(project: Path) -> Place:
    return Place(str(project.with_name("origin.git")), project, shared=True, environment={"A": "1"})


def drive(project: Path, engine: FakeEngine, *names: str, look: Callable[[Board], None] = lambda _: None) -> Board:
    return Driver(sweep_of(project, *names), place(project), engine, look).run()


def finishing(project: Path) -> Callable[[Job], FakeWorker]:
    """A worker that leaves a result at the origin, as the real one does."""

    def play(job: Job) -> FakeWorker:
        run_git(project, "push", "-q", job.origin, f"HEAD:{result_ref(job.commit, job.trial)}")
        values = {"stage": "train-gpt", "step": 7, "n_steps": 11, "val": 2.5, "best": 2.25, "rate": 13.0}
        return FakeWorker([News("log", {"text": "hello"}), News("progress", values), News("end", {"text": "ok"})], DONE)

    return play


def states(board: Board) -> dict[str, str]:
    return {name: entry.state for name, entry in board.trials.items()}
