"""Faults that kill stages at random moments, and at chosen system calls (chaos/trap.py)."""

import signal
import time

from chaos.project import Project
from chaos.running import ended_by, kill, stage_module
from chaos.setup import SHORT, STAGES, Setup, difference, mlflow_fault, torn_file

POINTS = (
    "fsync-before:1", "fsync-after:2", "rename-before:1", "rename-after:1", "replace-before:1", "replace-after:1",
    "write:2000", "write:9000",
)  # fmt: skip
POINTS_IN_CHECKPOINTS = "fsync-before:7", "fsync-after:8", "replace-before:4", "replace-after:5", "replace-before:6"


def kill_at_random_moments(setup: Setup, tries: int) -> list[str]:
    """Kill each stage `tries` times at random moments, then run `dvc repro`."""
    project, verdicts = setup.new_project("stages"), []
    for stage in STAGES:
        attempts = [_kill_at_random(setup, project, stage) for _ in range(tries)]
        for _ in range(2 * tries):  # repeat attempts in which the stage ended before it was killed
            if None in attempts:
                attempts.remove(None)
                attempts.append(_kill_at_random(setup, project, stage))
        verdicts += [verdict for verdict in attempts if verdict is not None]
        project.run("dvc", "repro", "-f", "-s", stage)  # DVC would restore it, and not remove what a kill left over
    return _with_end(setup, project, verdicts)


def _kill_at_random(setup: Setup, project: Project, stage: str) -> str | None:
    """Kill a stage once and return the verdict, or None if the stage ended before."""
    running = project.start("dvc", "repro", "-f", "-s", stage)
    running.reaches(lambda: project.processes(stage_module(stage)))
    time.sleep(setup.random.uniform(0, 0.8 * setup.seconds[stage]))
    kill(project, stage)
    killed = running.wait() and ended_by(running.printed, signal.SIGKILL)
    return torn_file(project, setup.reference) if killed else None


def kill_at_system_calls(setup: Setup, tries: int) -> list[str]:
    """Kill each stage that has outputs inside write, and before or after fsync and rename; then run `dvc repro`.

    tries: number of different points at which each stage is killed.
    """
    project, verdicts = setup.new_project("points"), []
    for stage in STAGES[:-1]:
        points = (*POINTS, *(POINTS_IN_CHECKPOINTS if stage.startswith("train") else ()))
        arguments: tuple[str, ...] = (stage,)  # at first without -s, to complete the stage that was killed before
        recorded = False
        for point in setup.random.sample(points, min(tries, len(points))):
            status, printed = run_with_trap(project, f"{stage}:{point}", "dvc", "repro", *arguments)
            arguments = "-f", "-s", stage
            if status and ended_by(printed, signal.SIGKILL, signal.SIGXFSZ):
                verdicts.append(torn_file(project, setup.reference))
            else:  # the stage makes no such call, so it ended normally and DVC has recorded it
                recorded = True
        if recorded:  # run the stage again, because DVC would restore it and not remove the leftovers of a kill
            project.run("dvc", "repro", *arguments)
    return _with_end(setup, project, verdicts)


def run_with_trap(project: Project, trap: str, *command: str) -> tuple[int, str]:
    """Run a command with a trap in one of its stages; return the exit status and the output."""
    running = project.start(*command, CHAOS=trap)
    return running.wait(), running.printed


def _with_end(setup: Setup, project: Project, verdicts: list[str]) -> list[str]:
    """Complete the pipeline and return the verdicts of all tries. A fault at the end counts for every try."""
    project.run("dvc", "repro")
    fault = difference(project, setup.reference) or mlflow_fault(project, SHORT)
    return [fault or verdict for verdict in verdicts]
