"""A sweep has the results of DVC's own runs, and runs nothing twice."""

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
def test_a_sweep_runs_each_trial_once_and_a_trial_that_fails_says_why(template, tmp_path):
    project = template.copy_to(tmp_path / "bukva")
    settings = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=40"
    printed = project.bukva("sweep", "run", *settings)
    rows = [line.split() for line in project.bukva("sweep", "status").splitlines()]
    names = {row[0] for row in rows if "finished" in row[2:4]}
    assert len(names) == 2, printed
    locks = {name: project.read_from_experiment(name, "dvc.lock") for name in names}
    assert len(set(locks.values())) == 2
    again = project.bukva("sweep", "run", *settings)
    assert "To compare the experiments, run `bukva experiments`." in again
    assert {name: project.read_from_experiment(name, "dvc.lock") for name in names} == locks
    failed = project.bukva("sweep", "run", "-S", "model.block_size=5000", ok=False)
    assert "block_size" in failed.partition("\nNo result for 1 of 1 trial. sweep-")[2]
    assert "failed" in (status := project.bukva("sweep", "status"))
    assert "block_size" in status.partition("failed")[2]
