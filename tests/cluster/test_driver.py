"""The driver gives out every trial, repeats what was lost, and forgets nothing when it is killed."""

import pytest
from cluster.fakes import FakeEngine, FakeWorker, drive, finishing, place, states, sweep_of

from bukva.cluster.board import Board, driving, log_of, request_stop
from bukva.cluster.driver import MOST_LOSSES, Driver, Place
from bukva.cluster.job import FAILED, TRY_AGAIN, Job, News
from bukva.cluster.origin import GitError, finished, result_ref, run_git
from bukva.cluster.watch import Progress
from bukva.core.errors import BukvaError

KILLED = -9


def test_every_trial_is_given_out_once_and_its_news_are_kept(project):
    engine = FakeEngine(finishing(project))
    board = drive(project, engine, "a", "b", "c")
    assert states(board) == {"a": "finished", "b": "finished", "c": "finished"}
    assert [job.trial for job in engine.jobs] == ["a", "b", "c"]
    assert engine.closed
    entry = board.trials["b"]
    assert (entry.progress, entry.text) == (Progress("train-gpt", 7, 11, 2.5, 2.25, 13.0), "ok")
    assert log_of("tries", "b").read_text() == "hello\nok\n"
    assert Board.read("tries") == board


def test_what_the_origin_has_is_not_given_out_again_and_a_sweep_may_grow(project):
    commit, origin = sweep_of(project).commit, place(project).origin
    drive(project, FakeEngine(finishing(project)), "a")
    run_git(project, "push", "-q", origin, f"HEAD:{result_ref('ab' * 20, 'c')}")  # of another commit
    assert finished(project, origin, commit) == {"a"}
    engine = FakeEngine(finishing(project))
    assert states(drive(project, engine, "a", "b")) == {"a": "finished", "b": "finished"}
    assert [job.trial for job in engine.jobs] == ["b"]


@pytest.mark.parametrize("status", [KILLED, TRY_AGAIN, 2])
def test_a_lost_trial_is_given_out_again(project, status):
    finish = finishing(project)

    def play(job: Job) -> FakeWorker:
        return FakeWorker([], status) if job.trial == "a" and job.attempt < MOST_LOSSES else finish(job)

    engine = FakeEngine(play)
    board = drive(project, engine, "a", "b")
    assert states(board) == {"a": "finished", "b": "finished"}
    assert [job.attempt for job in engine.jobs if job.trial == "a"] == [1, 2, 3]


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


def test_what_another_driver_or_sweep_has_and_an_origin_that_is_away_are_one_sentence(project):
    engine = FakeEngine(finishing(project))
    with driving("tries"), pytest.raises(BukvaError, match="tries: another driver runs it"):
        drive(project, engine, "a")
    drive(project, engine, "a", "b")
    with pytest.raises(BukvaError, match=r"there is another sweep tries, of commit .* and 2 trials"):
        drive(project, engine, "a", "c")
    away = Place("file:///nowhere/origin.git", project, shared=True, environment={})
    with pytest.raises(GitError, match=r"git push: .*nowhere/origin.git"):
        Driver(sweep_of(project, "a", "b"), away, engine, lambda _: None).run()
