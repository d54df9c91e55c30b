"""Faults that end a training: the training, its DVC or all processes are killed or told to stop."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.kill_stages import run_with_trap
from chaos.project import Project
from chaos.running import Running, ended_by, kill, kill_all, stage_module, wait_until_empty
from chaos.setup import (
    LONG,
    LONGEST,
    SHORT,
    Setup,
    difference,
    difference_from_uninterrupted,
    mlflow_fault,
    start_training,
    train_uninterrupted,
)

SAVED = "The checkpoint is saved. Run the same command to resume."  # message of the training


class Interrupted:
    """A GPT whose training is interrupted repeatedly, and the outputs of the same training without interruption.

    Faults that use the same recipe share the uninterrupted training.
    """

    COMMAND = "dvc", "repro", "-f", "-s", "train-gpt"
    SEED = 2

    def __init__(self, setup: Setup, **recipe: object) -> None:
        self.project = setup.with_seed(self.SEED, LONG, **recipe)
        if str(recipe) not in setup.references:
            setup.references[str(recipe)] = train_uninterrupted(self.project)
        self.reference = setup.references[str(recipe)]

    def interrupt(self, end: Callable[[Running], None]) -> Running:
        """Start the training, call `end` at the first checkpoint, and wait until the command ends."""
        running = start_training(self.project, *self.COMMAND)
        end(running)
        running.wait()
        return running

    def resume(self) -> str:
        """Repeat the command and return what was lost, or ""."""
        printed = self.project.run(*self.COMMAND)
        if "Resumed at step" not in printed:
            return f"it did not resume: {printed}"
        return mlflow_fault(self.project, LONG) or difference(self.project, self.reference)


# ---- kill -9


def kill_after_mlflow_has_points(setup: Setup, tries: int) -> list[str]:
    """Kill a training each time MLflow has points that are later than the checkpoint; then run `dvc repro`."""
    project = setup.with_seed(1, LONGEST)
    verdicts = [_kill_at_next_point(project) for _ in range(tries)]
    project.run("dvc", "repro", "train-gpt")
    fault = mlflow_fault(project, LONGEST) or difference_from_uninterrupted(project)
    return [fault or verdict for verdict in verdicts]


def _kill_at_next_point(project: Project) -> str:
    last = max(0, _last_point(project))
    running = project.start("dvc", "repro", "train-gpt", BUKVA_CHECKPOINT_SECONDS="3600")
    has_new_point = running.reaches(lambda: _last_point(project) > last)
    kill(project, "train-gpt")
    running.wait()
    return "" if has_new_point else "MLflow got no point"


def _last_point(project: Project) -> int:
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt" and run["status"] == "RUNNING"]
    return max(runs[-1]["steps"], default=-1) if runs else -1


def kill_dvc(setup: Setup, tries: int) -> list[str]:
    """Kill DVC while a stage trains, then run `dvc repro`. The training must notice, save and end."""
    training, verdicts = Interrupted(setup), []
    for _ in range(tries):
        running = training.interrupt(lambda running: running.process.kill())
        ended = training_ends(training.project)
        reported = "The DVC process that started this stage has ended" in running.printed and SAVED in running.printed
        fault = "" if ended and reported else f"it did not end, or did not report it: {running.printed}"
        verdicts.append(training.resume() or fault)
    return verdicts


def kill_dvc_before_it_records(setup: Setup, tries: int) -> list[str]:
    """Kill DVC after a training has ended and before dvc.lock records it; then run `dvc repro`."""
    verdicts = []
    for number in range(tries):
        project = setup.with_seed(30 + number)  # a new seed, because DVC's run cache would have the same training
        status, _ = run_with_trap(project, "train-gpt:dvc:1", "dvc", "repro", "train-gpt")
        printed = project.run("dvc", "repro", "train-gpt")
        fault = "" if status == -signal.SIGKILL else "dvc was not killed"
        fault = fault or ("" if f"Resumed at step {SHORT[-1]}" in printed else "the training was lost")
        verdicts.append(fault or mlflow_fault(project, SHORT) or difference_from_uninterrupted(project))
    return verdicts


def kill_every_process(setup: Setup, tries: int) -> list[str]:
    """Kill all processes, as a power cut would, except that the disk keeps its cache; then run `dvc repro`."""
    training, verdicts = Interrupted(setup), []

    def kill_all_soon(_: Running) -> None:
        time.sleep(setup.random.uniform(0, 0.5))
        kill_all(training.project)

    for _ in range(tries):
        training.interrupt(kill_all_soon)
        verdicts.append(training.resume())
    return verdicts


def kill_and_abandon(setup: Setup, tries: int) -> list[str]:
    """Kill all processes of a training that is never resumed. `bukva sync` must set the status KILLED."""
    return [_kill_and_abandon(setup.with_seed(80 + number, LONGEST)) for number in range(tries)]


def _kill_and_abandon(project: Project) -> str:
    running = project.start("dvc", "repro", "train-gpt")
    assert running.reaches(lambda: _last_point(project) >= 0), running.printed
    kill_all(project)
    running.wait()
    before = "RUNNING" in project.statuses()
    project.reset()
    project.sync()
    after = "RUNNING" in project.statuses()
    return "" if before and not after else f"RUNNING before: {before}, after: {after}"


# ---- signals


@dataclass(frozen=True)
class Request:
    """A way to stop a training, and the signal that DVC then reports."""

    send: Callable[[Running], None]
    signal: signal.Signals


def stop_by_signals(setup: Setup, tries: int) -> list[str]:
    """Stop a training by Ctrl-C and by SIGTERM alternately, then run `dvc repro`.

    The training must save its state and report the signal, and its run in MLflow must get status KILLED.
    """
    training, verdicts = Interrupted(setup), []

    def terminate(_: Running) -> None:
        kill(training.project, "train-gpt", signal.SIGTERM)

    requests = Request(Running.press_ctrl_c, signal.SIGINT), Request(terminate, signal.SIGTERM)
    for number in range(tries):
        request = requests[number % len(requests)]
        running = training.interrupt(request.send)
        reported = ended_by(running.printed, request.signal) and SAVED in running.printed
        training.project.wait_for_mlflow()
        status = training.project.training_runs()[-1]["status"]
        fault = "" if status == "KILLED" else f"its status in MLflow is {status}"
        fault = fault if reported else f"it did not report the signal: {running.printed}"
        verdicts.append(training.resume() or fault)
    return verdicts


def stop_two_processes(setup: Setup, tries: int) -> list[str]:
    """End a training of two processes in four ways, then run `dvc repro`.

    The ways are: kill one process, terminate the launcher, Ctrl-C, and kill DVC.
    """
    training, verdicts = Interrupted(setup, processes=2), []

    def kill_one(_: Running) -> None:
        training.project.processes(stage_module("train-gpt"))[-1].kill()  # the first is the launcher

    def terminate_launcher(_: Running) -> None:
        training.project.processes(stage_module("train-gpt"))[0].terminate()

    def kill_its_dvc(running: Running) -> None:
        running.process.kill()
        training_ends(training.project)

    ends = kill_one, terminate_launcher, Running.press_ctrl_c, kill_its_dvc
    for number in range(tries):
        training.interrupt(ends[number % len(ends)])
        verdicts.append(training.resume())
    return verdicts


def training_ends(project: Project) -> bool:
    """Return whether the training ends by itself within 20 seconds."""
    return not wait_until_empty(lambda: project.processes(stage_module("train-gpt")), 20)
