"""Rows that kill or stop stages, trainings, DVC and experiments."""

import re
import signal
import time
from collections.abc import Iterator
from functools import partial

from chaos.setup import AGAIN, LONG, LONGEST, SHORT, STAGES, TRAIN, Row, Setup, interrupted, not_resumed
from tests.support.project import Project
from tests.support.running import Running, ended_by, send, wait_until

POINTS = (
    "fsync-before:1", "fsync-after:2", "rename-before:1", "rename-after:1", "replace-before:1", "replace-after:1",
    "write:2000", "write:9000",
)  # fmt: skip
POINTS_IN_CHECKPOINTS = "fsync-before:7", "fsync-after:8", "replace-before:4", "replace-after:5", "replace-before:6"
ENDED = "The DVC process that started this stage has ended"
SAVED = "The checkpoint is saved. Run the same command to resume."
KINDS: tuple[tuple[str, ...], ...] = (), ("--temp",), ("--queue",)

# ---- stages


def stages(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of each stage, at random moments.

    `dvc repro -f -s STAGE`; the process of the stage is killed at a random moment; no file with a final name may differ
    from an uninterrupted run; `dvc repro` at the end.
    """
    project, verdicts = setup.new_project("stages"), list[str]()
    for stage in STAGES:
        n_wanted = len(verdicts) + tries
        for _ in range(3 * tries):  # more often than needed, because some attempts end before they are killed
            if len(verdicts) < n_wanted:
                verdicts += _kill_stage(setup, project, stage)
        project.run("dvc", "repro", "-f", "-s", stage)  # DVC would restore it, and not remove what a kill left over
    yield from _at_end(setup, project, verdicts)


def system_calls(setup: Setup, tries: int) -> Iterator[str]:
    """A kill inside a write, and before and after an fsync and a rename.

    A program called `python` precedes the real one on the PATH (chaos/trap.py); the n-th call of os.fsync, os.replace
    or os.rename kills the process of the stage, or the kernel kills it inside a write (RLIMIT_FSIZE); in each stage
    with outputs, also for its checkpoints.
    """
    project, verdicts = setup.new_project("points"), list[str]()
    for stage in STAGES[:-1]:
        points = (*POINTS, *(POINTS_IN_CHECKPOINTS if stage.startswith("train") else ()))
        for point in setup.random.sample(points, min(tries, len(points))):  # a stage may not make such a call
            verdicts += _kill_stage(setup, project, stage, CHAOS=f"{stage}:{point}")
        project.run("dvc", "repro", "-f", "-s", stage)
    yield from _at_end(setup, project, verdicts)


def _kill_stage(setup: Setup, project: Project, stage: str, **trap: str) -> list[str]:
    """Run a stage, and kill it with a trap or at a random moment. Return the verdict, or nothing if it was too late."""
    running = project.start("dvc", "repro", "-f", "-s", stage, **trap)
    if not trap:
        running.reaches(partial(project.stage_processes, stage))
        time.sleep(setup.random.uniform(0, 0.8 * setup.seconds[stage]))
        project.kill(stage)
    killed = running.wait() and ended_by(running.printed, signal.SIGKILL, signal.SIGXFSZ)
    return [setup.torn_file(project)] if killed else []


def _at_end(setup: Setup, project: Project, verdicts: list[str]) -> list[str]:
    """Complete the pipeline, and return the verdicts of all tries. A fault at the end counts for every try."""
    project.run("dvc", "repro")
    fault = setup.lost(project, SHORT)
    return [fault or each for each in verdicts]


# ---- trainings


def mlflow_ahead(setup: Setup, number: int) -> str:
    """`kill -9` after MLflow has received later points than the last checkpoint.

    A training saves only its first checkpoint, and is killed when mlflow.db has a later point; at the end, MLflow must
    have every step once.
    """
    project = setup.with_seed(90 + number, LONGEST)
    running = project.start(*TRAIN, BUKVA_CHECKPOINT_SECONDS="3600")
    is_ahead = running.reaches(partial(_has_point_after, project, 0))
    project.kill()
    running.wait()
    project.run(*TRAIN)
    return setup.lost(project, LONGEST) or ("" if is_ahead else "MLflow got no point")


def _has_point_after(project: Project, step: int) -> bool:
    runs = project.gpt_runs("RUNNING")
    return bool(runs) and max(runs[-1]["steps"], default=-1) > step


@interrupted()
def dvc(_: Setup, project: Project, running: Running, __: int) -> str:
    """`kill -9` of DVC while a stage trains.

    The stage must notice this within seconds, report it, save a checkpoint and end.
    """
    running.process.kill()
    return _not_ended(project, running, ENDED, SAVED)


def dvc_before_stage(setup: Setup, number: int) -> str:
    """`kill -9` of DVC while the process of a stage starts.

    The stage must notice this after its imports and end; a stage that trained on would train twice.
    """
    project = setup.with_seed(2, LONGEST)
    running = project.start(*AGAIN)
    running.reaches(project.stage_processes)
    time.sleep(0.2 * number)
    running.process.kill()
    fault = _not_ended(project, running, ENDED)
    project.run(*AGAIN)
    return project.mlflow_fault(LONGEST) or fault


def _not_ended(project: Project, running: Running, *messages: str) -> str:
    """Describe a training that does not end with these messages after its DVC process was killed."""
    running.wait()
    ended = project.training_ends() and all(message in running.printed for message in messages)
    return "" if ended else f"it did not end, or did not report it: {running.printed}"


def before_dvc_lock(setup: Setup, number: int) -> str:
    """`kill -9` of DVC between the end of a training and the writing of dvc.lock.

    The stage kills DVC when it ends; the next run must resume at the last step.
    """
    project = setup.with_seed(30 + number)  # a new seed, because DVC's run cache would have the same training
    if project.start(*TRAIN, CHAOS="train-gpt:dvc:1").wait() != -signal.SIGKILL:
        return "dvc was not killed"
    if f"Resumed at step {SHORT[-1]}" not in project.run(*TRAIN):
        return "the training was lost"
    return setup.lost(project, SHORT)


@interrupted()
def power_cut(setup: Setup, project: Project, running: Running, _: int) -> str:
    """`kill -9` of all processes at the same time.

    DVC, the stage and its background processes; unlike in a real power cut, the disk keeps data that was not synced.
    """
    time.sleep(setup.random.uniform(0, 0.5))
    send(project.processes())
    running.wait()
    return ""


def abandoned(setup: Setup, number: int) -> str:
    """`kill -9` of all processes of a training that is never resumed.

    MLflow shows the run of the training as RUNNING, and after `bukva sync` as KILLED.
    """
    project = setup.with_seed(80 + number, LONGEST)
    running = project.start(*TRAIN)
    assert running.reaches(partial(_has_point_after, project, -1)), running.printed
    send(project.processes())
    running.wait()
    before = project.has_running_run()
    project.reset()
    project.sync()
    after = project.has_running_run()
    return "" if before and not after else f"RUNNING before: {before}, after: {after}"


@interrupted()
def signals(_: Setup, project: Project, running: Running, number: int) -> str:
    """SIGTERM, and Ctrl-C in the terminal.

    The training must complete and save the current update, and its run must get the status KILLED; the stage exits with
    143 or 130 (after Ctrl-C, DVC prints -2 if its shell is dash); SIGINT goes to the process group.
    """
    if number % 2:
        project.kill(number=signal.SIGTERM)
    else:
        running.press_ctrl_c()
    running.wait()
    if not ended_by(running.printed, (signal.SIGINT, signal.SIGTERM)[number % 2]) or SAVED not in running.printed:
        return f"it did not report the signal: {running.printed}"
    project.wait_for_mlflow()
    status = project.training_runs()[-1]["status"]
    return "" if status == "KILLED" else f"its status in MLflow is {status}"


@interrupted(processes=2)
def two_processes(_setup: Setup, project: Project, running: Running, number: int) -> str:
    """A training in two processes: one process killed, the launcher terminated, Ctrl-C, DVC killed.

    `train_gpt.processes=2` with torch's launcher; after each fault, the same command again.
    """
    launcher, *_, last = project.stage_processes()
    (last.kill, launcher.terminate, running.press_ctrl_c, running.process.kill)[number]()
    running.wait()
    project.training_ends()
    return ""


# ---- experiments


def dvc_exp_run(setup: Setup, number: int) -> str:
    """`kill -9` of `dvc exp run` while a stage trains.

    As in the row `dvc`; `git checkout -f main`, because DVC leaves HEAD detached; then the same command again.
    """
    project, command, steps = _experiment(setup, 70, number)
    running = project.start_training(*command)
    running.process.kill()
    running.wait()
    if not project.training_ends():
        return "it did not end"
    project.run("git", "checkout", "-qf", "main")
    return not_resumed(project.run(*command)) or project.mlflow_fault(steps)


def experiments(setup: Setup, number: int) -> str:
    """`kill -9` of a training in `dvc exp run`, with `--temp` and in DVC's queue.

    Each training is killed; then the same command again.
    """
    project, command, steps = _experiment(setup, 7, number, *KINDS[number])
    before = len(project.gpt_runs("FINISHED"))
    _run_experiment(project, command, killed=True)
    printed = _run_experiment(project, command, killed=False)
    new = len(project.gpt_runs("FINISHED")) - before
    once = "" if new == 1 else f"MLflow has {new} finished runs of it: {project.training_runs()}"
    return not_resumed(printed) or once or project.mlflow_fault(steps)


def _experiment(setup: Setup, seed: int, number: int, *kind: str) -> tuple[Project, tuple[str, ...], list[int]]:
    """Return a project, the command of an experiment, and the steps at which the experiment scores val."""
    project, n_steps = setup.with_seed(seed, LONG), LONG[-1] + 1 + number
    project.commit("for an experiment")
    return project, ("dvc", "exp", "run", *kind, "-S", f"train_gpt.n_steps={n_steps}"), [*LONG, n_steps]


def _run_experiment(project: Project, command: tuple[str, ...], *, killed: bool) -> str:
    """Run an experiment, kill its training at the first checkpoint if `killed`, and return the output."""
    running, queued = project.start(*command), "--queue" in command
    if queued:
        running.wait()
        running = project.start("dvc", "queue", "start")  # the workers outlive this command
        running.wait()
    if killed:
        if queued:
            wait_until(project.has_checkpoint)
        else:
            assert running.reaches(project.has_checkpoint), running.printed
        assert project.kill(), running.printed
    if queued:
        project.wait_for_queue()
    running.wait()
    project.run("git", "checkout", "-q", ".")  # undoes the values of -S, which DVC leaves in params.yaml
    tasks = re.findall(r"^[0-9a-f]{7}", project.run("dvc", "queue", "status"), re.MULTILINE)
    return running.printed + "".join(project.run("dvc", "queue", "logs", task) for task in tasks)


ROWS = (
    Row(stages, 3), Row(system_calls, 8), Row(mlflow_ahead, 1), Row(dvc, 1), Row(dvc_before_stage, 3),
    Row(dvc_exp_run, 1), Row(before_dvc_lock, 1), Row(power_cut, 2), Row(abandoned, 1), Row(signals, 2),
    Row(two_processes, 4), Row(experiments, len(KINDS)),
)  # fmt: skip
