"""What the faults have in common: projects to break, and how they look when nothing was broken."""

import contextlib
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from chaos.project import PATIENCE_SECONDS, Project, Running

T = TypeVar("T")

STAGES = "download", "clean", "tokenize", "split", "train-bigram", "train-gpt", "evaluate", "sample", "publish"
STEPS = list(range(0, 401, 100))  # at which trainings score val
LONG = list(range(0, 2001, 500))  # those that are to be met while they train
LONGEST = list(range(0, 15_001, 300))  # and those that MLflow is to have a point of, which takes seconds to start
OFTEN = {"BUKVA_CHECKPOINT_SECONDS": "0.2"}
SEED = 20  # of the moments at which something is killed


class Scene:
    """Projects in a folder that the caller throws away."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(exist_ok=True)
        self.random = random.Random(SEED)
        self._shim()
        bare = Project(self._new("bare"))
        bare.make()
        bare.set({stage: _scored_at(STEPS) for stage in ("train_bigram", "train_gpt")})
        bare.commit("longer trainings")
        self.bare = bare
        self.whole = self.fresh("whole")
        self.seconds = self._run_timed()
        self.reference = self.whole.outputs()
        self.whole.commit("baseline")

    def fresh(self, name: str) -> Project:
        """A project in which nothing was run."""
        project = Project(self._new(name))
        shutil.copytree(self.bare.folder, project.folder, symlinks=True, dirs_exist_ok=True)
        project.env |= OFTEN | {"PATH": f"{self.scratch / 'shim'}:{project.env['PATH']}"}
        return project

    def with_seed(self, seed: int, steps: list[int] = STEPS, **recipe: object) -> Project:
        """The project in which all was run, with a GPT to be trained anew and scored at these steps."""
        self.whole.clean()
        self.whole.run("make", "clean-checkpoints")  # those of a training that another fault has left
        self.whole.set({"train_gpt": {"seed": seed, **_scored_at(steps), **recipe}})
        return self.whole

    def forced(self, project: Project) -> dict[str, str]:
        """What there is after a training that is not interrupted."""
        project.run("dvc", "repro", "-f", "-s", "train-gpt")
        return project.outputs()

    def _new(self, name: str) -> Path:
        folder = self.scratch / name / "bukva"
        folder.mkdir(parents=True)
        return folder

    def _shim(self) -> None:
        """A `python` for DVC that may be a trap (chaos/victim.py)."""
        program = self.scratch / "shim" / "python"
        program.parent.mkdir()
        victim = Path(__file__).with_name("victim.py")
        program.write_text(
            f'#!/bin/sh\n[ -n "$CHAOS" ] && exec {sys.executable} {victim} "$@"\nexec {sys.executable} "$@"\n'
        )
        program.chmod(0o755)

    def _run_timed(self) -> dict[str, float]:
        """Run the pipeline; how long each stage took, for kills to fall into it."""
        running, began = self.whole.start("dvc", "repro"), {}
        for stage in STAGES:
            running.until(lambda stage=stage: f"Running stage '{stage}'" in running.printed)  # type: ignore[misc]
            began[stage] = time.monotonic()
        assert running.status() == 0, running.printed
        ends = [*list(began.values())[1:], time.monotonic()]
        return {stage: end - start for (stage, start), end in zip(began.items(), ends, strict=True)}


def _scored_at(steps: list[int]) -> dict[str, object]:
    return {"n_steps": steps[-1], "eval_every": steps[1]}


def module(stage: str) -> str:
    """The word that names a stage in the command line of its process."""
    return f"stages.{stage.replace('-', '_')}"


def kill(project: Project, word: str, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal to the process of that word; whether there was one."""
    processes = project.processes(word)
    for process in processes[:1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return bool(processes)


def kill_all(project: Project) -> None:
    """kill -9 of every process, those that end while others are killed among them."""
    for process in project.everything():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def ended_by(printed: str, *numbers: signal.Signals) -> bool:
    """Whether DVC says that one of these signals has ended a stage.

    It says -N where its shell has become the stage (bash), 128 + N where the shell waited for it (dash).
    """
    return any(re.search(rf"exited with ({-number}|{128 + number})$", printed, re.MULTILINE) for number in numbers)


def start_training(project: Project, *command: str, **env: str) -> Running:
    """Start a command that trains the GPT, and wait until there is something to be lost."""
    wait_for(lambda: not project.leftovers())  # those of an earlier training go a moment after its end
    running = project.start(*command, **env)
    assert running.until(lambda: has_checkpoint(project)), running.printed
    return running


def has_checkpoint(project: Project) -> bool:
    """Whether the GPT's training has come beyond its first state."""
    return any(int(file.name.partition("-")[0]) for file in project.checkpoints("train-gpt"))


def halves(project: Project, reference: dict[str, str]) -> str:
    """A file under a final name that is not what it is to be, if there is one."""
    for path, digest in project.outputs().items():
        final = path != "dvc.lock" and not any(part.startswith(".") for part in Path(path).parts)
        if final and reference.get(path) != digest and not path.startswith("reports/curves/"):  # these grow, row by row
            return f"{path} is not whole"
    return ""


def difference(project: Project, reference: dict[str, str]) -> str:
    """What tells the end of a pipeline that was broken from that of one that was not, or nothing."""
    found = project.outputs()
    for path in sorted(reference.keys() | found.keys()):
        if reference.get(path) != found.get(path):
            return f"{path} differs"
    left = wait_for_none(project.leftovers)
    return f"{left[0]} is left" if left else ""


def unfinished(project: Project, steps: list[int]) -> str:
    """What the last training lacks in MLflow, or has too much of, or nothing."""
    ours = [run for run in project.training_runs() if run["stage"] == "train-gpt"]
    if not ours or ours[-1]["status"] != "FINISHED":
        return f"MLflow has {ours}"
    if ours[-1]["steps"] != steps:
        return f"MLflow has the steps {ours[-1]['steps']}, not {steps}"
    return "a run is left RUNNING" if "RUNNING" in project.statuses() else ""


def wait_for(true: Callable[[], object]) -> None:
    """Wait until something is so."""
    assert not wait_for_none(lambda: not true(), PATIENCE_SECONDS)


def wait_for_none(found: Callable[[], T], seconds: float = 5.0) -> T:
    """What a function finds, once it finds nothing or that time is over: some processes end a moment later."""
    until = time.monotonic() + seconds
    while (left := found()) and time.monotonic() < until:
        time.sleep(0.05)
    return left
