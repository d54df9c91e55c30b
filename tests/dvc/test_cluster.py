"""A sweep on this machine: the same results as those of DVC's queue, also when workers and drivers are killed."""

import os
import signal

import psutil
import pytest

from chaos.project import Project
from chaos.running import Running, wait_until

pytestmark = pytest.mark.slow

SETTINGS = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=1000", "-S", "train_gpt.eval_every=250"
RUN = "python", "-m", "bukva.cluster", "run", "--name", "tries", *SETTINGS
ENV = {"PYTHONPATH": "src", "BUKVA_CHECKPOINT_SECONDS": "0.2"}


def results(project: Project) -> dict[str, str]:
    """settings of the GPT -> dvc.lock, of all experiments."""
    found = {}
    for ref in project.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split():
        if "/celery/" not in ref and not ref.endswith("/exec"):
            params = project.run("git", "show", f"{ref}:params.yaml").partition("train_gpt:")[2]
            found[params] = project.run("git", "show", f"{ref}:dvc.lock")
    return found


def workers(driver: Running) -> list[psutil.Process]:
    below = psutil.Process(driver.process.pid).children(recursive=True)
    return [each for each in below if "bukva.cluster.work" in each.cmdline()]


def has_step(project: Project) -> bool:
    return any(int(file.name.partition("-")[0]) for file in project.checkpoints("train-gpt"))


def test_a_sweep_whose_workers_and_driver_are_killed_has_the_results_of_dvcs_queue(template, tmp_path):
    project, other = template.copy_to(tmp_path / "cluster" / "bukva"), template.copy_to(tmp_path / "queue" / "bukva")
    driver = project.start(*RUN, **ENV)
    assert driver.reaches(lambda: has_step(project)), driver.printed
    os.kill(workers(driver)[0].pid, signal.SIGKILL)
    assert driver.reaches(lambda: "stage" in project.run(*RUN[:3], "status", **ENV)), driver.printed
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.wait()
    printed = project.run(*RUN, **ENV)
    assert "tries: 2 finished" in printed
    other.run("dvc", "exp", "run", "--queue", *SETTINGS)
    other.run("dvc", "exp", "run", "--run-all")
    assert results(project) == results(other)
    assert len(results(project)) == 2
    project.sync()
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt" and len(run["steps"]) == 5]
    assert [run["steps"] for run in runs] == [[0, 250, 500, 750, 1000]] * 2
    wait_until(lambda: not project.leftovers())


def test_changed_files_are_refused_because_experiments_start_from_a_commit(project):
    project.set({"model": {"n_layer": 2}})
    printed = project.run(*RUN, ok=False, **ENV)
    assert printed == (
        "params.yaml: is changed since the last commit, and experiments start from a commit; commit it, or undo the "
        "change.\n"
    )
