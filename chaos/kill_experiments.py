"""Faults that kill a training of `dvc exp run`: in the workspace, with --temp, and in the queue."""

import re

from chaos.kill_training import training_ends
from chaos.project import Project
from chaos.running import kill, wait_until
from chaos.setup import LONG, Setup, has_checkpoint, mlflow_fault, start_training

KINDS: tuple[tuple[str, ...], ...] = (), ("--temp",), ("--queue",)


def kill_dvc_exp_run(setup: Setup, tries: int) -> list[str]:
    """Kill `dvc exp run` while it trains, check out the branch again, and repeat the command."""
    return [_kill_dvc_exp_run(setup.with_seed(70, LONG), 1 + number) for number in range(tries)]


def _kill_dvc_exp_run(project: Project, more: int) -> str:
    project.commit("for an experiment")
    change, steps = _longer_by(more)
    command = "dvc", "exp", "run", "-S", change
    running = start_training(project, *command)
    running.process.kill()
    ended = running.wait() and training_ends(project)
    project.run("git", "checkout", "-qf", "main")
    printed = project.run(*command)
    fault = "" if ended and "Resumed at step" in printed else f"it did not resume: {printed}"
    return fault or mlflow_fault(project, steps)


def kill_experiments(setup: Setup, tries: int) -> list[str]:
    """Kill the training of each kind of experiment, and repeat the command."""
    project = setup.with_seed(7, LONG)
    project.commit("for experiments")
    return [_kill_experiment(project, kind, 1 + number) for number, kind in enumerate(KINDS[:tries])]


def _kill_experiment(project: Project, kind: tuple[str, ...], more: int) -> str:
    change, steps = _longer_by(more)
    command = "dvc", "exp", "run", *kind, "-S", change
    before = _n_finished(project)
    _run_experiment(project, command, killed=True)
    printed = _run_experiment(project, command, killed=False)
    fault = "" if "Resumed at step" in printed else f"it did not resume: {printed}"
    new = _n_finished(project) - before
    fault = fault or ("" if new == 1 else f"MLflow has {new} finished runs of it")
    return fault or mlflow_fault(project, steps)


def _n_finished(project: Project) -> int:
    runs = project.training_runs()
    return sum(run["stage"] == "train-gpt" and run["status"] == "FINISHED" for run in runs)


def _longer_by(more: int) -> tuple[str, list[int]]:
    """Return the setting for `more` updates than LONG has, and the steps at which this training scores val."""
    return f"train_gpt.n_steps={LONG[-1] + more}", [*LONG, LONG[-1] + more]


def _run_experiment(project: Project, command: tuple[str, ...], *, killed: bool) -> str:
    """Run an experiment, kill its training at the first checkpoint if `killed`, and return the output."""
    running, queued = project.start(*command), "--queue" in command
    if queued:
        running.wait()
        running = project.start("dvc", "queue", "start")  # the workers outlive this command
        running.wait()
    if killed:
        wait_until(lambda: has_checkpoint(project))
        assert kill(project, "train-gpt"), running.printed
    if queued:
        wait_until(lambda: not re.search(r"Running|Queued", project.run("dvc", "queue", "status")))
    running.wait()
    project.run("git", "checkout", "-q", ".")  # undoes the values of -S, which DVC leaves in params.yaml
    tasks = re.findall(r"^[0-9a-f]{7}", project.run("dvc", "queue", "status"), re.MULTILINE)
    return running.printed + "".join(project.run("dvc", "queue", "logs", task) for task in tasks)
