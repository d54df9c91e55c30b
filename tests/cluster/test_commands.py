"""What the commands print about a sweep, and what they say when there is none."""

import pytest

from bukva.cli.sweep import cancel, status
from bukva.cluster.board import Board, Entry, driving, take_stops
from bukva.cluster.watch import Progress

COMMIT = "1" * 40


@pytest.fixture
def board(project):
    """A sweep with a trial of each kind."""
    found = Board("tries", COMMIT)
    found.trials = {
        "tries-1": Entry(["train_gpt.seed=1"], "finished", 1, "b", Progress("publish", 0, 0, 2.5, 2.25, 7.0)),
        "tries-2": Entry(
            ["train_gpt.seed=2"], "running", 2, "c", Progress("train-gpt", 50, 150, 2.75, 2.75, 1.1e4), 20
        ),
        "tries-3": Entry(["train_gpt.seed=3"], "failed", 1, "b", Progress("train-gpt"), text="loss is NaN at step 7"),
        "tries-4": Entry(["train_gpt.seed=4"]),
    }
    found.write()
    return found


def test_status_has_the_running_trials_first_and_says_how_to_go_on_when_no_driver_runs(board, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    status(None)
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[:5] == [
        "trial settings state stage step val best chars/s left node",
        "tries-2 train_gpt.seed=2 running train-gpt 50/150 2.750 2.750 11.0k 20 s c",
        "tries-3 train_gpt.seed=3 failed train-gpt",
        "tries-4 train_gpt.seed=4 waiting",
        "tries-1 train_gpt.seed=1 finished publish 2.500 2.250",
    ]
    assert shown[5:7] == ["tries-3: loss is NaN at step 7", "tries: 1 running, 1 waiting, 1 finished, 1 failed"]
    assert "No driver runs this sweep; to continue it, give the same command again." in " ".join(shown)
    with driving("tries"):
        status("tries")
    assert "No driver runs this sweep" not in capsys.readouterr().out


def test_cancel_asks_for_one_trial_or_for_all_that_are_not_over(board, capsys):
    with driving("tries"):
        cancel(["tries-2"])
        assert take_stops("tries") == {"tries-2"}
        cancel(["tries"])
        assert take_stops("tries") == {"tries-2", "tries-4"}
    assert capsys.readouterr().out.splitlines() == [
        "tries-2: 1 trial is asked to save and stop",
        "tries: 2 trials are asked to save and stop",
    ]
