"""What the commands print about a sweep, and what they say when there is none."""

import io

import pytest
from rich.console import Console

from bukva.base.errors import BukvaError
from bukva.cli.sweep import cancel, logs, status
from bukva.cluster.board import Board, Entry, driving, log_of, take_stops
from bukva.cluster.table import live, summary, table
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


def rows(found: Board, most: int | None = None) -> list[str]:
    printed = io.StringIO()
    Console(file=printed, width=160).print(table(found, most))
    return [" ".join(line.split()) for line in printed.getvalue().splitlines()]


def test_the_table_has_the_running_trials_first_with_their_speed_and_what_went_wrong(board):
    shown = rows(board)
    assert shown[0] == "trial settings state stage step val best chars/s left node"
    assert shown[1] == "tries-2 train_gpt.seed=2 running train-gpt 50/150 2.750 2.750 11.0k 20 s c"
    assert [line.split()[0] for line in shown[1:5]] == ["tries-2", "tries-3", "tries-4", "tries-1"]
    assert shown[4] == "tries-1 train_gpt.seed=1 finished publish 2.500 2.250"
    assert shown[5:] == ["tries-3: loss is NaN at step 7", "tries: 1 running, 1 waiting, 1 finished, 1 failed"]


def test_a_table_that_is_too_long_for_the_screen_says_what_is_left_out(board):
    shown = rows(board, 2)
    assert len([line for line in shown if line.startswith("tries-") and "seed" in line]) == 2
    assert "and 2 more: bukva sweep status tries" in shown


def test_without_a_terminal_each_change_is_a_line_once(board):
    printed = io.StringIO()
    with live(Console(file=printed, width=200)) as look:
        look(board)
        look(board)
        board.trials["tries-2"].state = "finished"
        look(board)
        board.trials["tries-4"].state, board.trials["tries-4"].text = "failed", "loss is NaN at step 7"
        look(board)
    first, *others = printed.getvalue().splitlines()
    assert first == "2 of 4 trials had ended before"
    assert [line.partition(" ")[2] for line in others] == [
        "tries-2: running on c",
        "tries-2: finished, val 2.750 bits/char",
        "tries-4: failed: loss is NaN at step 7",
    ]


def test_status_says_how_to_go_on_when_no_driver_runs(board, capsys):
    status(None)
    assert summary(board) in capsys.readouterr().out
    with driving("tries"):
        status("tries")
    assert "No driver runs this sweep" not in capsys.readouterr().out
    status("tries")
    assert "No driver runs this sweep; to continue it, give the same command again." in capsys.readouterr().out


def test_logs_are_those_of_one_trial(board, capsys):
    log_of("tries", "tries-2").parent.mkdir()
    log_of("tries", "tries-2").write_text("step 50\n")
    logs("tries-2", follow=True)  # no driver runs, so there is nothing to wait for
    assert capsys.readouterr().out == "step 50\n"


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


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (lambda: status("other"), "other: there is no such sweep; known: tries."),
        (lambda: logs("other", follow=False), "other: no sweep has a trial of this name; see: "),
        (lambda: logs("tries-4", follow=False), "tries-4: has printed nothing yet."),
        (lambda: cancel(["tries-2"]), "tries: no driver runs it, so nothing of it is running."),
    ],
)
def test_a_name_that_makes_no_sense_is_one_sentence(board, command, sentence):
    with pytest.raises(BukvaError) as error:
        command()
    assert str(error.value).startswith(sentence)


def test_without_any_sweep_the_first_command_is_named(project):
    with pytest.raises(BukvaError, match=r"There is no sweep yet; start one: bukva sweep run"):
        status(None)
