"""A sweep that is interrupted, and one that fails. `make chaos` compares results with those of DVC's own runs."""

import pytest

from bukva.core.machine import n_cores

pytest.importorskip("ray")

SWEEP = "python", "-m", "bukva", "sweep", "run", "--name", "twice", "--cores", str(n_cores())  # one trial at a time
LONG = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=100000"


@pytest.mark.slow
def test_a_sweep_can_be_interrupted_again_and_again_and_its_status_says_so(template, tmp_path):
    project = template.copy_to(tmp_path / "bukva")

    for _ in range(2):
        driver = project.start(*SWEEP, *LONG, PYTHONPATH="src")
        assert driver.reaches(lambda begun=driver: ": running" in begun.printed), driver.printed
        assert "1 running, 1 waiting" in project.bukva("sweep", "status")
        driver.press_ctrl_c()
        assert driver.wait() == 130, driver.printed
        assert driver.printed.endswith("interrupted after 0 finished trials. Repeat the command to continue.\n")
        assert "Traceback" not in driver.printed
        assert "1 interrupted, 1 waiting" in project.bukva("sweep", "status")


@pytest.mark.nightly
def test_a_trial_that_fails_says_why(template, tmp_path):
    project = template.copy_to(tmp_path / "bukva")
    failed = project.bukva("sweep", "run", "-S", "model.block_size=5000", ok=False)
    assert "block_size" in failed.partition("\nNo result for 1 of 1 trial. sweep-")[2]
    assert "block_size" in project.bukva("sweep", "status").partition("failed")[2]
