"""What a training says when it starts; that it survives being killed is the trade of tests/chaos."""

import itertools

import pytest

from chaos.scene import LONG, OFTEN, kill, module, start_training

pytestmark = pytest.mark.slow

SEEDS = itertools.count(700)  # DVC would restore what it has trained before


@pytest.fixture
def interrupted(fresh):
    """The project with a training that was killed at some step."""
    fresh.set({"train_gpt": {"n_steps": LONG[-1], "eval_every": LONG[1], "seed": next(SEEDS)}})
    running = start_training(fresh, "dvc", "repro", "train-gpt", **OFTEN)
    assert kill(fresh, module("train-gpt"))
    assert running.status() != 0
    assert not (fresh.folder / "data/models/gpt").exists()
    yield fresh
    fresh.run("make", "clean-checkpoints")
    assert not fresh.checkpoints()


def test_the_same_command_goes_on(interrupted):
    assert "\nresumed at step " in interrupted.run("dvc", "repro", "train-gpt")


def test_another_parameter_starts_from_the_start_and_is_named(interrupted):
    interrupted.set({"train_gpt": {"learning_rate": 0.001}})
    said = "from the start: since the one that was interrupted, train_gpt.learning_rate was 0.004 and is 0.001\n"
    assert said in interrupted.run("dvc", "repro", "train-gpt")


def test_another_line_of_training_code_starts_from_the_start_and_is_named(interrupted):
    interrupted.edit("src/bukva/training/schedule.py", '"""', '"""  ')
    said = "from the start: since the one that was interrupted, src/bukva/training/schedule.py is another\n"
    assert said in interrupted.run("dvc", "repro", "-s", "train-gpt")


def test_another_text_starts_from_the_start_and_is_named(interrupted):
    interrupted.edit("data/sample/prose/skazki/1.txt", "а", "о")
    printed = interrupted.run("dvc", "repro", "train-gpt")
    assert "from the start: since the one that was interrupted, data/split/" in printed


def test_a_torn_checkpoint_is_told_and_the_one_before_it_counts(interrupted):
    *_, last = interrupted.checkpoints("train-gpt")
    last.write_bytes(last.read_bytes()[:1000])
    printed = interrupted.run("dvc", "repro", "train-gpt")
    assert f"{last.with_suffix('.broken')}: set aside, for it is no checkpoint of this training (its bytes" in printed
    assert "resumed at step" in printed or "none of its checkpoints is whole" in printed


def test_a_training_by_hand_leaves_no_checkpoint(fresh):
    fresh.run(
        "python", "-m", "stages.train_gpt", "data/tokens/vocab.json", "data/split", "data/models/gpt",
        "reports/curves/train_gpt.csv", PYTHONPATH="src", **OFTEN,
    )  # fmt: skip
    assert not fresh.checkpoints()
