"""What a training prints when it starts; that it survives kills is tested in tests/chaos."""

import pytest

from chaos.running import kill
from chaos.setup import LONG, SAVE_OFTEN, start_training

pytestmark = pytest.mark.slow

COMMAND = "dvc", "repro", "-s", "train-gpt"


@pytest.fixture(scope="module")
def interrupted(copied):
    """The project with a training that was killed, and has a checkpoint."""
    copied.reset()
    copied.set({"train_gpt": {"n_steps": LONG[-1], "eval_every": LONG[1]}})
    copied.commit("a longer training")
    running = start_training(copied, *COMMAND, **SAVE_OFTEN)
    assert kill(copied, "train-gpt")
    assert running.wait() != 0
    assert not (copied.folder / "data/models/gpt").exists()
    return copied


def first_lines(project):
    """What the command prints until the training starts; then it is killed."""
    running = project.start(*COMMAND, BUKVA_CHECKPOINT_SECONDS="3600")
    assert running.reaches(lambda: "resumed at" in running.printed or "from the start" in running.printed)
    assert kill(project, "train-gpt")
    running.wait()
    return running.printed


def test_a_torn_checkpoint_is_set_aside(interrupted):
    *_, last = interrupted.checkpoints("train-gpt")
    last.write_bytes(last.read_bytes()[:1000])
    printed = first_lines(interrupted)
    assert f"{last.with_suffix('.broken')}: set aside, not a checkpoint of this training (its bytes" in printed
    assert "resumed at step" in printed or "none of its checkpoints is whole" in printed


def test_a_changed_parameter_and_changed_code_start_from_the_start_and_are_named(interrupted):
    interrupted.set({"train_gpt": {"learning_rate": 0.001}})
    interrupted.edit("src/bukva/training/schedule.py", '"""', '"""  ')
    assert (
        "from the start: since the interrupted training, src/bukva/training/schedule.py has changed, "
        "train_gpt.learning_rate was 0.003 and is 0.001\n"
    ) in first_lines(interrupted)


def test_a_training_without_dvc_leaves_no_checkpoint(project):
    project.remove_checkpoints()
    project.run(
        "python", "-m", "stages.train_gpt", "data/tokens", "data/split", "data/models/gpt",
        "reports/curves/train_gpt.csv", PYTHONPATH="src", **SAVE_OFTEN,
    )  # fmt: skip
    assert not project.checkpoints()
