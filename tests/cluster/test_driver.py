"""The driver gives out every trial, repeats what was lost, and forgets nothing when it is killed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bukva.base.errors import BukvaError
from bukva.cluster.board import Board, driving, log_of, request_stop
from bukva.cluster.driver import MOST_LOSSES, Driver, Place
from bukva.cluster.job import DONE, FAILED, STOPPED, TRY_AGAIN, Job, News
from bukva.cluster.origin import GitError, finished, result_ref, run_git
from bukva.cluster.trials import Sweep, Trial

KILLED = -9


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

    def start(self, job: Job) -> FakeWorker | None:
        if sum(worker.status() is None for worker in self.workers) >= self.places:
            return None
        self.jobs.append(job)
        self.workers.append(self.play(job))
        return self.workers[-1]

    def close(self) -> None:
        self.closed = True
        for worker in self.workers:
            if worker.status() is None:
                worker.stop()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository with a commit, and an origin."""
    folder, origin = tmp_path / "project", tmp_path / "origin.git"
    (folder / ".dvc").mkdir(parents=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    subprocess.run(["git", "init", "-q", "--bare", str(origin)], check=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    for name in ("LOOK_SECONDS", "WRITE_SECONDS"):
        monkeypatch.setattr(f"bukva.cluster.driver.{name}", 0.0)
    return folder


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


def test_every_trial_is_given_out_once_and_its_news_are_kept(project):
    engine = FakeEngine(finishing(project))
    board = drive(project, engine, "a", "b", "c")
    assert states(board) == {"a": "finished", "b": "finished", "c": "finished"}
    assert [job.trial for job in engine.jobs] == ["a", "b", "c"]
    assert engine.closed
    entry = board.trials["b"]
    assert (entry.stage, entry.step, entry.n_steps, entry.best, entry.text) == ("train-gpt", 7, 11, 2.25, "ok")
    assert log_of("tries", "b").read_text() == "hello\nok\n"
    assert Board.read("tries") == board


def test_a_job_names_commit_settings_origin_and_project(project):
    engine = FakeEngine(finishing(project))
    drive(project, engine, "a", "b")
    job = Job.from_json(engine.jobs[1].to_json())
    commit = run_git(project, "rev-parse", "HEAD").strip()
    assert job == Job("b", ("train_gpt.seed=1",), commit, place(project).origin, str(project), 1, 1, {"A": "1"})


def test_the_origin_gets_the_commit_before_any_worker_starts(project):
    seen = []

    def play(job: Job) -> FakeWorker:
        seen.append(run_git(project, "ls-remote", job.origin, f"refs/bukva/base/{job.commit}"))
        return FakeWorker([], DONE)

    drive(project, FakeEngine(play), "a")
    assert job_commit(seen[0]) == run_git(project, "rev-parse", "HEAD").strip()


def job_commit(listed: str) -> str:
    return listed.partition("\t")[0]


def test_what_the_origin_has_is_not_given_out_again(project):
    drive(project, FakeEngine(finishing(project)), "a")
    engine = FakeEngine(finishing(project))
    board = Driver(sweep_of(project, "a"), place(project), engine, lambda _: None).run()
    assert engine.jobs == []
    assert states(board) == {"a": "finished"}


def test_a_result_that_was_removed_is_made_again(project):
    drive(project, FakeEngine(finishing(project)), "a")
    run_git(project, "push", "-q", place(project).origin, f":{result_ref(sweep_of(project).commit, 'a')}")
    engine = FakeEngine(finishing(project))
    drive(project, engine, "a")
    assert [job.attempt for job in engine.jobs] == [2]


@pytest.mark.parametrize("status", [KILLED, TRY_AGAIN, 2])
def test_a_lost_trial_is_given_out_again(project, status):
    finish = finishing(project)

    def play(job: Job) -> FakeWorker:
        return FakeWorker([], status) if job.trial == "a" and job.attempt < MOST_LOSSES else finish(job)

    engine = FakeEngine(play)
    board = drive(project, engine, "a", "b")
    assert states(board) == {"a": "finished", "b": "finished"}
    assert [job.attempt for job in engine.jobs if job.trial == "a"] == [1, 2, 3]


def test_a_trial_that_is_always_lost_is_given_up_with_the_reason(project):
    engine = FakeEngine(lambda _: FakeWorker([News("end", {"text": "origin: no answer"})], TRY_AGAIN))
    board = drive(project, engine, "a")
    assert len(engine.jobs) == MOST_LOSSES
    assert (board.trials["a"].state, board.trials["a"].text) == ("lost", "origin: no answer (3 times)")


def test_a_trial_that_fails_is_not_repeated_until_the_command_is_given_again(project):
    engine = FakeEngine(lambda _: FakeWorker([News("end", {"text": "stage train-gpt: diverged"})], FAILED))
    board = drive(project, engine, "a")
    assert len(engine.jobs) == 1
    assert (board.trials["a"].state, board.trials["a"].text) == ("failed", "stage train-gpt: diverged")
    again = drive(project, FakeEngine(finishing(project)), "a")
    assert (again.trials["a"].state, again.trials["a"].attempt) == ("finished", 2)


def test_a_request_stops_running_and_waiting_trials(project):
    def look(board: Board) -> None:
        for name in ("a", "c"):
            if board.trials[name].state in ("running", "waiting"):
                request_stop("tries", name)
        if board.trials["c"].state == "stopped":
            request_stop("tries", "b")

    engine = FakeEngine(lambda _: FakeWorker([], None), places=1)
    board = drive(project, engine, "a", "b", "c", look=look)
    assert states(board) == {"a": "stopped", "b": "stopped", "c": "stopped"}
    assert [job.trial for job in engine.jobs] == ["a", "b"]


def test_after_ctrl_c_all_workers_have_saved_and_the_trials_wait(project):
    def look(board: Board) -> None:
        if board.count("running") == 2:
            raise KeyboardInterrupt

    engine = FakeEngine(lambda _: FakeWorker([], None))
    with pytest.raises(KeyboardInterrupt):
        drive(project, engine, "a", "b", "c", look=look)
    assert engine.closed
    assert states(Board.read("tries")) == {"a": "stopped", "b": "stopped", "c": "waiting"}
    board = drive(project, FakeEngine(finishing(project)), "a", "b", "c")
    assert states(board) == {"a": "finished", "b": "finished", "c": "finished"}


def test_a_second_driver_of_a_sweep_is_refused(project):
    with driving("tries"), pytest.raises(BukvaError, match="tries: another driver runs it"):
        drive(project, FakeEngine(finishing(project)), "a")


def test_a_name_that_another_sweep_has_is_refused(project):
    drive(project, FakeEngine(finishing(project)), "a")
    with pytest.raises(BukvaError, match=r"there is another sweep tries, of commit .* and 1 trials"):
        drive(project, FakeEngine(finishing(project)), "a", "b")


def test_an_origin_that_is_away_is_one_sentence(project):
    driver = Driver(
        sweep_of(project, "a"),
        Place("file:///nowhere/origin.git", project, shared=True, environment={}),
        FakeEngine(finishing(project)),
        lambda _: None,
    )
    with pytest.raises(GitError, match=r"git push: .*nowhere/origin.git"):
        driver.run()


def test_names_of_results_are_those_of_this_commit(project):
    commit, origin = sweep_of(project).commit, place(project).origin
    other = "ab" * 20
    for ref in (result_ref(commit, "a"), result_ref(commit, "b"), result_ref(other, "c")):
        run_git(project, "push", "-q", origin, f"HEAD:{ref}")
    assert finished(project, origin, commit) == {"a", "b"}
