"""The frame of all rows: projects to break, results of uninterrupted runs, and checks for lost data."""

import functools
import inspect
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bukva.project.stages import stages
from tests.support.project import SAVE_OFTEN, Project
from tests.support.running import Running, wait_until_empty

STAGES = tuple(stages())  # names, in the order in which DVC runs them
# steps at which a training scores val
SHORT = list(range(0, 401, 100))
LONG = list(range(0, 2001, 500))  # long enough to kill the training after its first checkpoint
LONGEST = list(range(0, 5001, 100))  # long enough to kill it after MLflow, which starts in seconds, has a point
TRAIN = "dvc", "repro", "train-gpt"
AGAIN = "dvc", "repro", "-f", "-s", "train-gpt"
SEED = 20  # seed of the random moments at which processes are killed


class Setup:
    """Projects in a folder that the caller removes.

    whole: project in which the pipeline was run without interruption.
    seconds: duration of each stage in that run.
    references: digests of the outputs of uninterrupted runs, by the content of params.yaml.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(exist_ok=True)
        self.random = random.Random(SEED)
        self._write_python()
        self._bare = Project(self._new_folder("bare"))
        self._bare.create()
        self._bare.set({stage: _scored_at(SHORT) for stage in ("train_bigram", "train_gpt")})
        self._bare.commit("longer trainings")
        self.whole = self.new_project("whole")
        self.seconds = self._run_pipeline()
        self.references = {self.whole.read("params.yaml"): self.whole.outputs()}
        self.whole.commit("baseline")

    def new_project(self, name: str) -> Project:
        """Return a new project in which nothing was run."""
        project = Project(self._new_folder(name))
        shutil.copytree(self._bare.folder, project.folder, symlinks=True, dirs_exist_ok=True)
        project.env |= SAVE_OFTEN | {"PATH": f"{self.scratch / 'bin'}:{project.env['PATH']}"}
        return project

    def with_seed(self, seed: int, steps: list[int] = SHORT, **recipe: object) -> Project:
        """Return the project `whole` with parameters for another training of the GPT, which scores val at `steps`."""
        self.whole.reset()
        self.whole.set({"train_gpt": {"seed": seed, **_scored_at(steps), **recipe}})
        return self.whole

    def _new_folder(self, name: str) -> Path:
        folder = self.scratch / name / "bukva"
        folder.mkdir(parents=True)
        return folder

    def _write_python(self) -> None:
        """Write the program `python` that DVC finds first on its PATH, and that can set traps (chaos/trap.py)."""
        program = self.scratch / "bin" / "python"
        program.parent.mkdir()
        trap = Path(__file__).with_name("trap.py")
        program.write_text(
            f'#!/bin/sh\n[ -n "$CHAOS" ] && exec {sys.executable} {trap} "$@"\nexec {sys.executable} "$@"\n'
        )
        program.chmod(0o755)

    def _run_pipeline(self) -> dict[str, float]:
        """Run the pipeline and return the seconds that each stage took."""
        running, moments = self.whole.start("dvc", "repro"), []
        for stage in STAGES:
            running.prints(f"Running stage '{stage}'")
            moments.append(time.monotonic())
        assert running.wait() == 0, running.printed
        moments.append(time.monotonic())
        return {stage: end - start for stage, start, end in zip(STAGES, moments, moments[1:], strict=False)}

    # ---- what was lost, or ""

    def lost(self, project: Project, steps: list[int]) -> str:
        """Describe what MLflow misses, a leftover file, or an output that differs from that of an uninterrupted run.

        If there is no such run with these parameters yet, the GPT is trained again, without interruption.
        """
        outputs, params = project.outputs(), project.read("params.yaml")
        if fault := project.mlflow_fault(steps):
            return fault
        if left := wait_until_empty(project.leftovers):
            return f"{left[0]} was not removed"
        if params not in self.references:
            project.run(*AGAIN)
            self.references[params] = project.outputs()
        reference = self.references[params]
        paths = sorted(path for path in reference.keys() | outputs.keys() if reference.get(path) != outputs.get(path))
        return f"{paths[0]} differs from that of an uninterrupted run" if paths else ""

    def torn_file(self, project: Project) -> str:
        """Describe a file that has its final name but differs from that of an uninterrupted run."""
        reference = self.references[project.read("params.yaml")]
        for path, digest in project.outputs().items():
            final = path != "dvc.lock" and not any(part.startswith(".") for part in Path(path).parts)
            grows = path.startswith("reports/curves/")  # written row by row
            if final and not grows and reference.get(path) != digest:
                return f"{path} is torn"
        return ""


def not_resumed(printed: str) -> str:
    """Describe that a training did not resume from a checkpoint."""
    return "" if "Resumed at step" in printed else f"it did not resume: {printed}"


def _scored_at(steps: list[int]) -> dict[str, object]:
    return {"n_steps": steps[-1], "eval_every": steps[1]}


# ---- rows

Once = Callable[[Setup, int], str]  # injects a fault; gets the number of the try, and returns what was lost, or ""
Series = Callable[[Setup, int], Iterator[str]]  # gets the number of tries, and yields for each what was lost, or ""


@dataclass(frozen=True)
class Row:
    """A fault. The first paragraph of the function's docstring names the fault, the second how it is injected."""

    inject: Once | Series
    tries: int
    is_possible: Callable[[], bool] = lambda: True

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.inject.__name__.replace("_", "-")

    @property
    def paragraphs(self) -> list[str]:
        """The fault, and how it is injected and checked; each in one line."""
        paragraphs = (inspect.getdoc(self.inject) or "").split("\n\n")
        return [" ".join(paragraph.split()).removesuffix(".") for paragraph in paragraphs]

    def verdicts(self, setup: Setup) -> list[str]:
        """Return what each try lost, or "". A try in which the fault did not happen counts as lost."""
        if not inspect.isgeneratorfunction(self.inject):
            return [str(self.inject(setup, number)) for number in range(self.tries)]
        verdicts = list(self.inject(setup, self.tries))
        return verdicts + ["the fault did not happen"] * (self.tries - len(verdicts))


def interrupted(**recipe: object) -> Callable[[Callable[[Setup, Project, Running, int], str]], Once]:
    """Turn a function into a row. It interrupts a training that has a checkpoint, and returns a fault or "".

    The row then resumes the training. `recipe`: parameters of the training.
    """

    def decorate(interrupt: Callable[[Setup, Project, Running, int], str]) -> Once:
        @functools.wraps(interrupt)
        def inject(setup: Setup, number: int) -> str:
            project = setup.with_seed(2, LONG, **recipe)
            fault = interrupt(setup, project, project.start_training(*AGAIN), number)
            return not_resumed(project.run(*AGAIN)) or setup.lost(project, LONG) or fault

        return inject

    return decorate
