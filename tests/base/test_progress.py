"""What is shown while waiting, and what is logged."""

import pytest

from bukva.base import progress
from bukva.training.state import Progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests turn."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def updates(clock):
    """Five updates of 1,000 characters in 2 s each; scoring val takes 3 s before the first and 28 s at the last."""
    clock[0] += 3
    yield Progress(0, 0, 0.0, None, 4.5, 4.5)
    for step in range(1, 5):
        clock[0] += 2
        yield Progress(step, step * 1000, 0.1)
    clock[0] += 30
    yield Progress(5, 5000, 0.1, 2.5, 2.75, 2.75)


def test_scorings_are_passed_on_and_logged_with_the_speed_of_updates_alone(clock):
    logged = []
    scored = list(progress.watch("train-gpt", 5, updates(clock), lambda values, step: logged.append((step, values))))
    assert [one.step for one in scored] == [0, 5]
    assert [step for step, _ in logged] == [0, 5]
    assert logged[0][1] == {
        "chars_seen": 0, "learning_rate": 0.0, "val_nats_per_char": 4.5, "best_val_nats_per_char": 4.5,
    }  # fmt: skip
    assert logged[1][1]["chars_per_second"] == pytest.approx(500)  # four updates of 1,000 characters in 2 s each
    assert logged[1][1]["train_nats_per_char"] == 2.5


def test_a_log_gets_the_losses_the_speed_and_the_time_left(clock, capsys):
    watched = progress.watch("train-gpt", 10, updates(clock), lambda *_: None)
    assert [next(watched).step, next(watched).step] == [0, 5]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train-gpt: step 0/10 | val 4.5000 best 4.5000 nats/char"
    assert lines[-1].startswith("train-gpt: step 5/10 | train 2.5000 val 2.7500 best 2.7500 nats/char | 500 chars/s | ")
    assert lines[-1].endswith(" left")


def test_a_training_that_goes_on_shows_and_logs_what_was_scored_before(clock, capsys):
    before, logged = [Progress(3, 3000, 0.1, 2.75, 3.25, 3.0)], []
    watched = progress.watch("train-gpt", 10, updates(clock), lambda _, step: logged.append(step), before)
    next(watched)
    assert logged == [3, 0]
    clock[0] += 60
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "train-gpt: step 0/10 | val 4.5000 best 4.5000 nats/char"
    silent = progress.watch("train-gpt", 10, [Progress(4, 4000, 0.1)], lambda *_: None, before)
    assert list(silent) == []
    assert (
        capsys.readouterr()
        .err.splitlines()[0]
        .startswith("train-gpt: step 4/10 | train 2.7500 val 3.2500 best 3.0000 nats/char")
    )


@pytest.mark.parametrize(("n_steps", "told"), [(5, False), (10, True)])
def test_a_training_that_stops_early_says_so(clock, capsys, n_steps, told):
    list(progress.watch("train-gpt", n_steps, updates(clock), lambda *_: None))
    last = capsys.readouterr().err.splitlines()[-1]
    assert (last == "train-gpt: stopped at step 5, for val got no better (patience)") is told


def test_a_transfer_shows_size_and_speed(clock, capsys):
    with progress.transfer("download ruslit") as show:
        clock[0] += 20
        show(5_000_000, 20_000_000)
        clock[0] += 20
        show(20_000_000, 20_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "download ruslit: 5.00MB of 20.0MB (25%), 250kB/s"
    assert lines[-1] == "download ruslit: 20.0MB, 500kB/s"
