"""A sweep on this machine: the same results as those of DVC's queue, also when workers and drivers are killed."""

import json
import os
import signal
from dataclasses import replace

import psutil
import pytest

from bukva.cluster.job import DONE
from chaos.project import Project
from chaos.running import Running, wait_until
from chaos.team import Team

pytestmark = pytest.mark.slow

SETTINGS = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=400", "-S", "train_gpt.eval_every=100"
RUN = "python", "-m", "bukva", "sweep", "run", "--name", "tries", *SETTINGS
ENV = {"PYTHONPATH": "src", "BUKVA_CHECKPOINT_SECONDS": "0.2"}


@pytest.fixture(scope="module")
def reference(template: Project, tmp_path_factory) -> dict[str, str]:
    """What DVC's queue makes of the same settings."""
    project = template.copy_to(tmp_path_factory.mktemp("queue") / "bukva")
    project.run("dvc", "exp", "run", "--queue", *SETTINGS)
    project.run("dvc", "exp", "run", "--run-all", "-j", "2")
    return results(project)


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


def test_a_sweep_whose_workers_and_driver_are_killed_has_the_results_of_dvcs_queue(reference, template, tmp_path):
    project = template.copy_to(tmp_path / "bukva")
    driver = project.start(*RUN, **ENV)
    assert driver.reaches(lambda: has_step(project)), driver.printed
    os.kill(workers(driver)[0].pid, signal.SIGKILL)
    assert driver.reaches(lambda: "stage" in project.run(*RUN[:4], "status", **ENV)), driver.printed
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.wait()
    printed = project.run(*RUN, **ENV)
    assert "tries: 2 finished" in printed
    assert results(project) == reference
    assert len(reference) == 2
    project.sync()
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt" and len(run["steps"]) == 5]
    assert [run["steps"] for run in runs] == [[0, 100, 200, 300, 400]] * 2
    wait_until(lambda: not project.leftovers())


def test_changed_files_are_refused_because_experiments_start_from_a_commit(project):
    project.set({"model": {"n_layer": 2}})
    printed = project.run(*RUN, ok=False, **ENV)
    assert printed == (
        "params.yaml: is changed since the last commit, and experiments start from a commit; commit it, or undo the "
        "change.\n"
    )


def test_a_trial_whose_machine_is_lost_goes_on_elsewhere_to_the_same_bytes(reference, template, tmp_path):
    team = Team(template, tmp_path)
    job = team.job(("train_gpt.seed=3", *SETTINGS[3::2]))
    first = team.start("first", job)
    assert first.sends_checkpoint(), first.printed
    first.lose()
    second = team.start("second", replace(job, attempt=2))
    assert second.wait() == DONE
    assert "resumed at step" in second.printed
    assert not list(team.remote.rglob("checkpoints"))  # they are of no more use
    assert team.lock_of() in reference.values()
    [journal] = team.remote.rglob("attempt-2/journals/train-gpt-001/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines() if line]
    points = [record["step"] for record in records if "val_nats_per_char" in record.get("values", {})]
    assert points == [0, 100, 200, 300, 400]
    third = team.start("third", replace(job, trial="same"))
    assert third.wait() == DONE
    assert "Running stage 'train-gpt'" not in third.printed  # it has the results of the first trial
    assert team.lock_of("same") == team.lock_of()
