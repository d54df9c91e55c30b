"""A sweep on this machine: the same results as those of DVC's queue, also when workers and drivers are killed."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from bukva.cluster.job import DONE, Job, News
from bukva.cluster.origin import push_base, result_ref
from chaos.project import Project
from chaos.running import Running, wait_until

pytestmark = pytest.mark.slow

SETTINGS = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=400", "-S", "train_gpt.eval_every=100"
RUN = "python", "-m", "bukva.cluster", "run", "--name", "tries", *SETTINGS
ENV = {"PYTHONPATH": "src", "BUKVA_CHECKPOINT_SECONDS": "0.2"}


@pytest.fixture(scope="module")
def reference(template: Project, tmp_path_factory) -> dict[str, str]:
    """What DVC's queue makes of the same settings."""
    project = template.copy_to(tmp_path_factory.mktemp("queue") / "bukva")
    project.run("dvc", "exp", "run", "--queue", *SETTINGS)
    project.run("dvc", "exp", "run", "--run-all")
    return results(project)


def results(project: Project) -> dict[str, str]:
    """settings of the GPT -> dvc.lock, of all experiments."""
    refs = project.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
    return dict(result(project, ref) for ref in refs if "/celery/" not in ref and not ref.endswith("/exec"))


def result(project: Project, ref: str) -> tuple[str, str]:
    """Settings of the GPT, and dvc.lock, of one experiment."""
    params = project.run("git", "show", f"{ref}:params.yaml").partition("train_gpt:")[2]
    return params, project.run("git", "show", f"{ref}:dvc.lock")


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
    assert driver.reaches(lambda: "stage" in project.run(*RUN[:3], "status", **ENV)), driver.printed
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


@pytest.fixture
def team(template, tmp_path) -> Project:
    """A project with an origin and a DVC remote, which other machines reach, too."""
    project = template.copy_to(tmp_path / "driver" / "bukva")
    project.run("git", "init", "-q", "--bare", str(tmp_path / "origin.git"))
    project.run("git", "remote", "add", "origin", str(tmp_path / "origin.git"))
    project.run("dvc", "remote", "add", "-d", "team", str(tmp_path / "remote"))
    project.commit("remote")
    project.run("python", "-m", "bukva", "push", PYTHONPATH="src")
    return project


def job(team: Project) -> Job:
    commit = team.run("git", "rev-parse", "HEAD").strip()
    origin = str(team.folder.parents[1] / "origin.git")
    push_base(team.folder, origin, commit)
    settings = *SETTINGS[3::2], "train_gpt.seed=3"
    return Job("try", settings, commit, origin, "", 1, 1, {"BUKVA_CHECKPOINT_SECONDS": "0.2"})


def start(team: Project, node: Path, what: Job) -> "subprocess.Popen[str]":
    """A worker on a machine whose files are in a folder of their own."""
    env = team.env | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "BUKVA_NODE": str(node)}
    with (node.parent / f"{node.name}.log").open("w") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "bukva.cluster.work"], env=env, cwd=node.parent, text=True,
            stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    assert worker.stdin
    worker.stdin.write(what.to_json() + "\n")
    worker.stdin.close()
    return worker


def log_of(node: Path) -> str:
    lines = (node.parent / f"{node.name}.log").read_text().splitlines()
    return "\n".join(str(News.from_json(line).values.get("text", "")) for line in lines)


def test_a_trial_whose_machine_is_lost_goes_on_elsewhere_to_the_same_bytes(reference, team, tmp_path):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    what, remote = job(team), tmp_path / "remote" / "bukva"
    worker = start(team, first, what)
    wait_until(lambda: len(list(remote.rglob("*.safetensors"))) > 1 or worker.poll() is not None)
    for process in [*psutil.Process(worker.pid).children(recursive=True), psutil.Process(worker.pid)]:
        process.kill()  # with its machine
    worker.wait()
    assert start(team, second, replace(what, attempt=2)).wait() == DONE
    assert "resumed at step" in log_of(second)
    assert not list(remote.rglob("checkpoints"))  # they are of no more use
    team.run("git", "fetch", "-q", "origin", f"{result_ref(what.commit, 'try')}:{result_ref(what.commit, 'try')}")
    params, resumed = result(team, result_ref(what.commit, "try"))
    assert resumed == reference[params]
    assert start(team, third, replace(what, trial="same")).wait() == DONE
    assert "Running stage 'train-gpt'" not in log_of(third)  # it has the results of the first trial
    [journal] = remote.rglob("attempt-2/journals/train-gpt-001/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text().splitlines() if line]
    points = [record["step"] for record in records if "val_nats_per_char" in record.get("values", {})]
    assert points == [0, 100, 200, 300, 400]
