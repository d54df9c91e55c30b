"""Faults that end processes."""

import os
import re
import signal
import time
from collections.abc import Callable

from chaos.project import Project, Running
from chaos.scene import (
    LONG,
    LONGEST,
    STAGES,
    STEPS,
    Scene,
    difference,
    ended_by,
    halves,
    has_checkpoint,
    kill,
    kill_all,
    module,
    start_training,
    unfinished,
    wait_for,
    wait_for_none,
)

POINTS = (
    "fsync-before:1", "fsync-after:2", "rename-before:1", "rename-after:1", "replace-before:1", "replace-after:1",
    "write:2000", "write:9000",
)  # fmt: skip
POINTS_OF_CHECKPOINTS = "fsync-before:7", "fsync-after:8", "replace-before:4", "replace-after:5", "replace-before:6"


class Training:
    """One GPT to be trained again and again, each time interrupted, and its outputs when it was not."""

    COMMAND = "dvc", "repro", "-f", "-s", "train-gpt"

    def __init__(self, scene: Scene, seed: int, **recipe: object) -> None:
        self.project = scene.with_seed(seed, LONG, **recipe)
        self.reference = scene.forced(self.project)

    def broken(self, end: Callable[[Running], None]) -> Running:
        """Start it, end it when it has a checkpoint, and wait for what was started."""
        running = start_training(self.project, *self.COMMAND)
        end(running)
        running.status()
        return running

    def again(self) -> str:
        """Give the same command again; what was lost, or nothing."""
        printed = self.project.run(*self.COMMAND)
        if "resumed at step" not in printed:
            return f"it began anew: {printed}"
        return unfinished(self.project, LONG) or difference(self.project, self.reference)


def in_every_stage(scene: Scene, tries: int) -> list[str]:
    """kill -9 at a random moment, `tries` times in each stage, then dvc repro."""
    project, lost = scene.fresh("stages"), []
    for stage in STAGES:
        killed = 0
        for _ in range(3 * tries):  # a moment behind its end does not count
            if killed == tries:
                break
            running = project.start("dvc", "repro", "-f", "-s", stage)
            running.until(lambda stage=stage: project.processes(module(stage)))  # type: ignore[misc]
            time.sleep(scene.random.uniform(0, 0.8 * scene.seconds[stage]))
            kill(project, module(stage))
            if running.status() and ended_by(running.printed, signal.SIGKILL):
                killed += 1
                lost.append(halves(project, scene.reference))
        project.run("dvc", "repro", "-s", stage)
    return _verdict(project, scene, lost)


def at_fault_points(scene: Scene, tries: int) -> list[str]:
    """Killed inside write, before and after fsync and rename, in each stage with outputs, then dvc repro."""
    project, lost = scene.fresh("points"), []
    for stage in STAGES[:-1]:
        more = POINTS_OF_CHECKPOINTS if stage.startswith("train") else ()
        for point in scene.random.sample((*POINTS, *more), min(tries, len(POINTS) + len(more))):
            status, printed = _trapped(project, f"{stage}:{point}", "dvc", "repro", "-f", "-s", stage)
            if status and ended_by(printed, signal.SIGKILL, signal.SIGXFSZ):  # else the stage has no such point
                lost.append(halves(project, scene.reference))
        project.run("dvc", "repro", "-f", "-s", stage)  # forced: DVC may have the stage from a try that met no trap
    return _verdict(project, scene, lost)


def between_mlflow_and_checkpoint(scene: Scene, tries: int) -> list[str]:
    """kill -9 of a training when MLflow has points that no checkpoint has, then dvc repro."""
    project, lost = scene.with_seed(1, LONGEST), []
    for _ in range(tries):
        known = max(0, _last_point(project))
        running = project.start("dvc", "repro", "train-gpt", BUKVA_CHECKPOINT_SECONDS="3600")
        seen = running.until(lambda known=known: _last_point(project) > known)  # type: ignore[misc]
        kill(project, module("train-gpt"))
        running.status()
        lost.append("" if seen else "MLflow saw nothing")
    project.run("dvc", "repro", "train-gpt")
    fault = unfinished(project, LONGEST) or _same_as_forced(scene, project)
    return [fault or one for one in lost]


def _last_point(project: Project) -> int:
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt" and run["status"] == "RUNNING"]
    return max(runs[-1]["steps"], default=-1) if runs else -1


def of_dvc(scene: Scene, tries: int) -> list[str]:
    """kill -9 of dvc while it trains: the training notices, saves and ends; then dvc repro."""
    training, lost = Training(scene, 2), []
    for _ in range(tries):
        running = training.broken(lambda running: running.process.kill())
        ended = _ends(training.project)
        said = "DVC, which started this stage, is gone" in running.printed and "which is saved" in running.printed
        lost.append("" if ended and said else f"it went on, or did not say so: {running.printed}")
        lost[-1] = training.again() or lost[-1]
    return lost


def of_dvc_before_it_knows(scene: Scene, tries: int) -> list[str]:
    """kill -9 of dvc when a training has ended and dvc.lock does not have it yet, then dvc repro."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(30 + number)  # new each time: DVC must not have it
        status, _ = _trapped(project, "train-gpt:dvc:1", "dvc", "repro", "train-gpt")
        printed = project.run("dvc", "repro", "train-gpt")
        fault = "" if status == -signal.SIGKILL else "dvc was not killed"
        fault = fault or ("" if "resumed at step 400" in printed else "the training was lost")
        lost.append(fault or unfinished(project, STEPS) or _same_as_forced(scene, project))
    return lost


def of_everything(scene: Scene, tries: int) -> list[str]:
    """kill -9 of every process at once, as a power cut does (but for the disk's own memory), then dvc repro."""
    training, lost = Training(scene, 4), []

    def end(_: Running) -> None:
        time.sleep(scene.random.uniform(0, 0.5))
        kill_all(training.project)

    for _ in range(tries):
        training.broken(end)
        lost.append(training.again())
    return lost


def of_dvc_in_an_experiment(scene: Scene, tries: int) -> list[str]:
    """kill -9 of dvc exp run while it trains, the branch checked out again as git asks for, the same command again."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(70, LONG)
        project.commit("for an experiment")
        change, steps = _longer_by(1 + number)
        command = "dvc", "exp", "run", "-S", change
        running = start_training(project, *command)
        running.process.kill()
        ended = running.status() and _ends(project)
        project.run("git", "checkout", "-qf", "main")
        printed = project.run(*command)
        fault = "" if ended and "resumed at step" in printed else f"it began anew: {printed}"
        lost.append(fault or unfinished(project, steps))
    return lost


def left_running(scene: Scene, tries: int) -> list[str]:
    """kill -9 of everything while an experiment trains that is not gone on with: the next stage has it KILLED."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(80 + number, LONGEST)
        running = project.start("dvc", "repro", "train-gpt")
        assert running.until(lambda project=project: _last_point(project) >= 0)  # type: ignore[misc]
        kill_all(project)
        running.status()
        before = "RUNNING" in project.statuses()
        project.clean()
        project.run("dvc", "repro", "-f", "-s", "clean")
        left = wait_for_none(lambda project=project: [s for s in project.statuses() if s == "RUNNING"], 60)  # type: ignore[misc]
        lost.append("" if before and not left else f"RUNNING before: {before}, after: {left}")
    return lost


def by_signals(scene: Scene, tries: int) -> list[str]:
    """SIGTERM to a training, Ctrl-C at the terminal: saved, KILLED in MLflow, exit status told; then dvc repro."""
    training, lost = Training(scene, 5), []

    def terminate(_: Running) -> None:
        kill(training.project, module("train-gpt"), signal.SIGTERM)

    for number in range(tries):
        end, told = ((terminate, signal.SIGTERM), (_press_ctrl_c, signal.SIGINT))[number % 2]
        running = training.broken(end)
        said = ended_by(running.printed, told) and "which is saved" in running.printed
        verdict = [run["status"] for run in training.project.training_runs()][-1]
        fault = "" if verdict == "KILLED" else f"MLflow said {verdict}"
        fault = fault if said else f"it did not say so: {running.printed}"
        lost.append(training.again() or fault)
    return lost


def of_several_processes(scene: Scene, tries: int) -> list[str]:
    """Two processes that train together: one killed, both terminated, Ctrl-C, dvc killed; then dvc repro."""
    training, lost = Training(scene, 6, processes=2), []

    def kill_one(_: Running) -> None:
        training.project.processes(module("train-gpt"))[-1].kill()  # the launcher is the first

    def terminate(_: Running) -> None:
        training.project.processes(module("train-gpt"))[0].terminate()

    def kill_dvc(running: Running) -> None:
        running.process.kill()
        _ends(training.project)

    for number in range(tries):
        training.broken((kill_one, terminate, _press_ctrl_c, kill_dvc)[number % 4])
        lost.append(training.again())
    return lost


def of_experiments(scene: Scene, tries: int) -> list[str]:
    """kill -9 of the training of dvc exp run, of --temp and of the queue, each then given again."""
    project, lost = scene.with_seed(7, LONG), []
    project.commit("for experiments")
    for number, kind in enumerate(((), ("--temp",), ("--queue",))[:tries]):
        change, steps = _longer_by(1 + number)
        command = "dvc", "exp", "run", *kind, "-S", change
        before = sum(run["stage"] == "train-gpt" for run in project.training_runs())
        _experiment(project, command, killed=True)
        printed = _experiment(project, command, killed=False)
        fault = "" if "resumed at step" in printed else f"it began anew: {printed}"
        runs = [run["status"] for run in project.training_runs() if run["stage"] == "train-gpt"]
        fault = fault or ("" if len(runs) == before + 1 else f"it has several runs in MLflow: {runs}")
        lost.append(fault or unfinished(project, steps))
    return lost


def _longer_by(number: int) -> tuple[str, list[int]]:
    """The change of an experiment that trains a few updates more, and the steps at which it scores val."""
    return f"train_gpt.n_steps={LONG[-1] + number}", [*LONG, LONG[-1] + number]


def _experiment(project: Project, command: tuple[str, ...], killed: bool) -> str:
    """Run an experiment, and kill its training once it has a checkpoint; returns what was printed."""
    running, queued = project.start(*command), "--queue" in command
    if queued:
        running.status()
        running = project.start("dvc", "queue", "start")  # its workers go on without it
        running.status()
    if killed:
        wait_for(lambda: has_checkpoint(project))
        assert kill(project, module("train-gpt")), running.printed
    if queued:
        wait_for(lambda: not re.search(r"Running|Queued", project.run("dvc", "queue", "status")))
    running.status()
    project.run("git", "checkout", "-q", ".")  # DVC leaves what -S has changed
    tasks = re.findall(r"^[0-9a-f]{7}", project.run("dvc", "queue", "status"), re.MULTILINE)
    return running.printed + "".join(project.run("dvc", "queue", "logs", task) for task in tasks)


def _press_ctrl_c(running: Running) -> None:
    """What a terminal does: SIGINT to the whole process group."""
    os.killpg(running.process.pid, signal.SIGINT)


def _ends(project: Project) -> bool:
    """Whether the training ends by itself in a few seconds."""
    return not wait_for_none(lambda: project.processes(module("train-gpt")), 20)


def _trapped(project: Project, trap: str, *command: str) -> tuple[int, str]:
    running = project.start(*command, CHAOS=trap)
    return running.status(), running.printed


def _verdict(project: Project, scene: Scene, lost: list[str]) -> list[str]:
    """Of all tries in one pipeline: each on its own, and the end for all of them."""
    project.run("dvc", "repro")
    fault = difference(project, scene.reference) or unfinished(project, STEPS)
    return [fault or one for one in lost]


def _same_as_forced(scene: Scene, project: Project) -> str:
    interrupted_ones = project.outputs()
    fault = difference(project, interrupted_ones)  # leftovers
    whole = scene.forced(project)
    differing = [path for path in whole if whole[path] != interrupted_ones.get(path)]
    return fault or (f"{differing[0]} differs from that of the whole training" if differing else "")
