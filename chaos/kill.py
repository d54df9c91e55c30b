"""Rows that kill or stop stages, trainings, DVC and experiments."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial

from chaos.project import Project
from chaos.row import Row
from chaos.running import Running, ended_by, kill, kill_all, stage_module, wait_until, wait_until_empty
from chaos.setup import (
    LONG,
    LONGEST,
    SHORT,
    STAGES,
    Setup,
    difference,
    difference_from_uninterrupted,
    has_checkpoint,
    mlflow_fault,
    start_training,
    torn_file,
    train_uninterrupted,
)

POINTS = (
    "fsync-before:1", "fsync-after:2", "rename-before:1", "rename-after:1", "replace-before:1", "replace-after:1",
    "write:2000", "write:9000",
)  # fmt: skip
POINTS_IN_CHECKPOINTS = "fsync-before:7", "fsync-after:8", "replace-before:4", "replace-after:5", "replace-before:6"
TRAIN = "dvc", "repro", "train-gpt"
AGAIN = "dvc", "repro", "-f", "-s", "train-gpt"
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
        n_killed = 0
        for _ in range(3 * tries):  # more often than needed, because some attempts end before they are killed
            if n_killed < tries and (killed := _kill_at_random(setup, project, stage)) is not None:
                n_killed += 1
                verdicts.append(killed)
        project.run("dvc", "repro", "-f", "-s", stage)  # DVC would restore it, and not remove what a kill left over
    yield from _with_end(setup, project, verdicts)


def _kill_at_random(setup: Setup, project: Project, stage: str) -> str | None:
    """Kill a stage once and return the verdict, or None if the stage ended before."""
    running = project.start("dvc", "repro", "-f", "-s", stage)
    running.reaches(lambda: project.processes(stage_module(stage)))
    time.sleep(setup.random.uniform(0, 0.8 * setup.seconds[stage]))
    kill(project, stage)
    killed = running.wait() and ended_by(running.printed, signal.SIGKILL)
    return torn_file(project, setup.reference) if killed else None


def system_calls(setup: Setup, tries: int) -> Iterator[str]:
    """A kill inside a write, and before and after an fsync and a rename.

    A program called `python` precedes the real one on the PATH (chaos/trap.py); the n-th call of os.fsync, os.replace
    or os.rename kills the process of the stage, or the kernel kills it inside a write (RLIMIT_FSIZE); in each stage
    with outputs, also for its checkpoints.
    """
    project, verdicts = setup.new_project("points"), list[str]()
    for stage in STAGES[:-1]:
        points = (*POINTS, *(POINTS_IN_CHECKPOINTS if stage.startswith("train") else ()))
        arguments: tuple[str, ...] = (stage,)  # at first without -s, to complete the stage that was killed before
        has_ended = False
        for point in setup.random.sample(points, min(tries, len(points))):
            running = project.start("dvc", "repro", *arguments, CHAOS=f"{stage}:{point}")
            arguments = "-f", "-s", stage
            if running.wait() and ended_by(running.printed, signal.SIGKILL, signal.SIGXFSZ):
                verdicts.append(torn_file(project, setup.reference))
            else:  # the stage makes no such call, and DVC has recorded it
                has_ended = True
        if has_ended:  # run it again, because DVC would restore it and not remove the leftovers of a kill
            project.run("dvc", "repro", *arguments)
    yield from _with_end(setup, project, verdicts)


def _with_end(setup: Setup, project: Project, verdicts: list[str]) -> list[str]:
    """Complete the pipeline, and return the verdicts of all tries. A fault at the end counts for every try."""
    project.run("dvc", "repro")
    fault = difference(project, setup.reference) or mlflow_fault(project, SHORT)
    return [fault or each for each in verdicts]


# ---- trainings


def mlflow_ahead(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` after MLflow has received later points than the last checkpoint.

    A training saves only its first checkpoint, and is killed when mlflow.db has a later point; at the end, MLflow must
    have every step once.
    """
    project, verdicts = setup.with_seed(1, LONGEST), list[str]()
    for _ in range(tries):
        last = max(0, _last_point(project))
        running = project.start(*TRAIN, BUKVA_CHECKPOINT_SECONDS="3600")
        has_new_point = running.reaches(partial(_has_point_after, project, last))
        kill(project, "train-gpt")
        running.wait()
        verdicts.append("" if has_new_point else "MLflow got no point")
    project.run(*TRAIN)
    fault = mlflow_fault(project, LONGEST) or difference_from_uninterrupted(project)
    yield from (fault or each for each in verdicts)


def _has_point_after(project: Project, step: int) -> bool:
    return _last_point(project) > step


def _last_point(project: Project) -> int:
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt" and run["status"] == "RUNNING"]
    return max(runs[-1]["steps"], default=-1) if runs else -1


def _interrupted(
    setup: Setup,
    tries: int,
    end: Callable[[Project, Running, int], object],
    check: Callable[[Project, Running, int], str] = lambda *_: "",
    **recipe: object,
) -> Iterator[str]:
    """Interrupt a training at a checkpoint, check what it left, resume it, and compare it with an uninterrupted one."""
    project = setup.with_seed(2, LONG, **recipe)
    reference = setup.references.setdefault(str(recipe), {}) or train_uninterrupted(project)
    setup.references[str(recipe)] = reference
    for number in range(tries):
        running = start_training(project, *AGAIN)
        end(project, running, number)
        running.wait()
        fault = check(project, running, number)
        printed = project.run(*AGAIN)
        yield _not_resumed(printed) or mlflow_fault(project, LONG) or difference(project, reference) or fault


def _not_resumed(printed: str) -> str:
    return "" if "Resumed at step" in printed else f"it did not resume: {printed}"


def _training_ends(project: Project) -> bool:
    """Return whether the training ends by itself within 20 seconds."""
    return not wait_until_empty(lambda: project.processes(stage_module("train-gpt")), 20)


def dvc(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of DVC while a stage trains.

    The stage must notice this within seconds, report it, save a checkpoint and end.
    """

    def fault(project: Project, running: Running, _: int) -> str:
        ended = _training_ends(project) and ENDED in running.printed and SAVED in running.printed
        return "" if ended else f"it did not end, or did not report it: {running.printed}"

    yield from _interrupted(setup, tries, lambda _, running, __: running.process.kill(), fault)


def dvc_before_stage(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of DVC while the process of a stage starts.

    The stage must notice this after its imports and end; a stage that trained on would train twice.
    """
    project, verdicts = setup.with_seed(2, LONGEST), list[str]()
    for number in range(tries):
        running = project.start(*AGAIN)
        running.reaches(lambda: project.processes(stage_module("train-gpt")))
        time.sleep(0.2 * number)
        running.process.kill()
        running.wait()
        ended = _training_ends(project) and ENDED in running.printed
        verdicts.append("" if ended else f"it did not end, or did not report it: {running.printed}")
    project.run(*AGAIN)
    fault = mlflow_fault(project, LONGEST)
    yield from (fault or each for each in verdicts)


def before_dvc_lock(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of DVC between the end of a training and the writing of dvc.lock.

    The stage kills DVC when it ends; the next run must resume at the last step.
    """
    for number in range(tries):
        project = setup.with_seed(30 + number)  # a new seed, because DVC's run cache would have the same training
        killed = project.start(*TRAIN, CHAOS="train-gpt:dvc:1").wait() == -signal.SIGKILL
        printed = project.run(*TRAIN)
        fault = "" if killed else "dvc was not killed"
        fault = fault or ("" if f"Resumed at step {SHORT[-1]}" in printed else "the training was lost")
        yield fault or mlflow_fault(project, SHORT) or difference_from_uninterrupted(project)


def power_cut(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of all processes at the same time.

    DVC, the stage and its background processes; unlike in a real power cut, the disk keeps data that was not synced.
    """

    def end(project: Project, *_: object) -> None:
        time.sleep(setup.random.uniform(0, 0.5))
        kill_all(project)

    yield from _interrupted(setup, tries, end)


def abandoned(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of all processes of a training that is never resumed.

    MLflow shows the run of the training as RUNNING, and after `bukva sync` as KILLED.
    """
    for number in range(tries):
        project = setup.with_seed(80 + number, LONGEST)
        running = project.start(*TRAIN)
        assert running.reaches(partial(_has_point_after, project, -1)), running.printed
        kill_all(project)
        running.wait()
        before = "RUNNING" in project.statuses()
        project.reset()
        project.sync()
        after = "RUNNING" in project.statuses()
        yield "" if before and not after else f"RUNNING before: {before}, after: {after}"


def signals(setup: Setup, tries: int) -> Iterator[str]:
    """SIGTERM, and Ctrl-C in the terminal.

    The training must complete and save the current update, and its run must get the status KILLED; the stage exits with
    143 or 130 (after Ctrl-C, DVC prints -2 if its shell is dash); SIGINT goes to the process group.
    """

    def end(project: Project, running: Running, number: int) -> None:
        if number % 2:
            kill(project, "train-gpt", signal.SIGTERM)
        else:
            running.press_ctrl_c()

    def fault(project: Project, running: Running, number: int) -> str:
        if not ended_by(running.printed, (signal.SIGINT, signal.SIGTERM)[number % 2]) or SAVED not in running.printed:
            return f"it did not report the signal: {running.printed}"
        project.wait_for_mlflow()
        status = project.training_runs()[-1]["status"]
        return "" if status == "KILLED" else f"its status in MLflow is {status}"

    yield from _interrupted(setup, tries, end, fault)


def two_processes(setup: Setup, tries: int) -> Iterator[str]:
    """A training in two processes: one process killed, the launcher terminated, Ctrl-C, DVC killed.

    `train_gpt.processes=2` with torch's launcher; after each fault, the same command again.
    """

    def end(project: Project, running: Running, number: int) -> None:
        launcher, *_, last = project.processes(stage_module("train-gpt"))
        (last.kill, launcher.terminate, running.press_ctrl_c, running.process.kill)[number]()
        running.wait()
        _training_ends(project)

    yield from _interrupted(setup, tries, end, processes=2)


# ---- experiments


def dvc_exp_run(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of `dvc exp run` while a stage trains.

    As in the row `dvc`; `git checkout -f main`, because DVC leaves HEAD detached; then the same command again.
    """
    for number in range(tries):
        project = setup.with_seed(70, LONG)
        project.commit("for an experiment")
        change, steps = _longer_by(1 + number)
        command = "dvc", "exp", "run", "-S", change
        running = start_training(project, *command)
        running.process.kill()
        ended = running.wait() and _training_ends(project)
        project.run("git", "checkout", "-qf", "main")
        printed = project.run(*command)
        yield ("" if ended else "it did not end") or _not_resumed(printed) or mlflow_fault(project, steps)


def experiments(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of a training in `dvc exp run`, with `--temp` and in DVC's queue.

    Each training is killed; then the same command again.
    """
    project = setup.with_seed(7, LONG)
    project.commit("for experiments")
    for number, kind in enumerate(KINDS[:tries], start=1):
        change, steps = _longer_by(number)
        command = "dvc", "exp", "run", *kind, "-S", change
        before = sum(_finished(project))
        _run_experiment(project, command, killed=True)
        printed = _run_experiment(project, command, killed=False)
        new = sum(_finished(project)) - before
        once = "" if new == 1 else f"MLflow has {new} finished runs of it: {project.training_runs()}"
        yield _not_resumed(printed) or once or mlflow_fault(project, steps)


def _finished(project: Project) -> Iterator[bool]:
    return (run["stage"] == "train-gpt" and run["status"] == "FINISHED" for run in project.training_runs())


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


ROWS = (
    Row(stages, 5), Row(system_calls, 8), Row(mlflow_ahead, 5), Row(dvc, 3), Row(dvc_before_stage, 3),
    Row(dvc_exp_run, 1), Row(before_dvc_lock, 3), Row(power_cut, 3), Row(abandoned, 1), Row(signals, 4),
    Row(two_processes, 4), Row(experiments, 3),
)  # fmt: skip
