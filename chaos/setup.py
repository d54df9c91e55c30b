"""Provide projects to break, the results of an uninterrupted run, and checks for lost data to all rows."""

import random
import shutil
import sys
import time
from pathlib import Path

from chaos.project import MLFLOW_SECONDS, Project
from chaos.running import Running, wait_until, wait_until_empty

STAGES = (
    "download", "clean", "tokenize", "split", "baselines", "train-bigram", "train-gpt", "evaluate", "sample", "publish",
)  # fmt: skip
# steps at which a training scores val
SHORT = list(range(0, 401, 100))
LONG = list(range(0, 2001, 500))  # long enough to kill the training after its first checkpoint
LONGEST = list(range(0, 5001, 100))  # long enough to kill it after MLflow, which starts in seconds, has a point
SAVE_OFTEN = {"BUKVA_CHECKPOINT_SECONDS": "0.2"}
SEED = 20  # seed of the random moments at which processes are killed


class Setup:
    """Projects in a folder that the caller removes.

    whole: project in which the pipeline was run without interruption.
    reference: digests of the outputs of `whole`, by path.
    seconds: duration of each stage in that run.
    references: digests of the outputs of uninterrupted trainings, by recipe.
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
        self.reference = self.whole.outputs()
        self.whole.commit("baseline")
        self.references: dict[str, dict[str, str]] = {}

    def new_project(self, name: str) -> Project:
        """Return a new project in which nothing was run."""
        project = Project(self._new_folder(name))
        shutil.copytree(self._bare.folder, project.folder, symlinks=True, dirs_exist_ok=True)
        project.env |= SAVE_OFTEN | {"PATH": f"{self.scratch / 'bin'}:{project.env['PATH']}"}
        return project

    def with_seed(self, seed: int, steps: list[int] = SHORT, **recipe: object) -> Project:
        """Return the project `whole` with parameters for another training of the GPT, which scores val at `steps`."""
        self.whole.reset()
        self.whole.remove_checkpoints()  # an earlier fault may have left some
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
        running = self.whole.start("dvc", "repro")
        starts = {stage: _start_of(stage, running) for stage in STAGES}
        assert running.wait() == 0, running.printed
        ends = [*list(starts.values())[1:], time.monotonic()]
        return {stage: end - start for (stage, start), end in zip(starts.items(), ends, strict=True)}


def _scored_at(steps: list[int]) -> dict[str, object]:
    return {"n_steps": steps[-1], "eval_every": steps[1]}


def _start_of(stage: str, running: Running) -> float:
    running.reaches(lambda: f"Running stage '{stage}'" in running.printed)
    return time.monotonic()


# ---- trainings


def train_uninterrupted(project: Project) -> dict[str, str]:
    """Train the GPT without interruption and return the digests of the outputs by path."""
    project.run("dvc", "repro", "-f", "-s", "train-gpt")
    return project.outputs()


def start_training(project: Project, *command: str) -> Running:
    """Start a command that trains the GPT, and wait for a checkpoint from which the training can resume."""
    wait_until(lambda: not project.leftovers())  # checkpoints of an earlier training are removed soon after its end
    running = project.start(*command)
    assert running.reaches(lambda: has_checkpoint(project)), running.printed
    return running


def has_checkpoint(project: Project) -> bool:
    """Return whether the training of the GPT has a checkpoint of a step after 0."""
    return any(int(file.name.partition("-")[0]) for file in project.checkpoints("train-gpt"))


# ---- what was lost, or ""


def torn_file(project: Project, reference: dict[str, str]) -> str:
    """Describe a file that has its final name but differs from the reference."""
    for path, digest in project.outputs().items():
        final = path != "dvc.lock" and not any(part.startswith(".") for part in Path(path).parts)
        grows = path.startswith("reports/curves/")  # written row by row
        if final and not grows and reference.get(path) != digest:
            return f"{path} is torn"
    return ""


def difference(project: Project, reference: dict[str, str]) -> str:
    """Describe an output that differs from the reference, or a leftover file."""
    if fault := difference_between(project.outputs(), reference):
        return fault
    left = wait_until_empty(project.leftovers)
    return f"{left[0]} was not removed" if left else ""


def difference_from_uninterrupted(project: Project) -> str:
    """Run the same training without interruption, and describe how the current outputs differ from its outputs."""
    resumed = project.outputs()
    return difference(project, resumed) or difference_between(resumed, train_uninterrupted(project))


def difference_between(outputs: dict[str, str], reference: dict[str, str]) -> str:
    """Describe a file whose digest differs, or that is missing on one side."""
    differing = sorted(path for path in reference.keys() | outputs.keys() if reference.get(path) != outputs.get(path))
    return f"{differing[0]} differs from that of an uninterrupted run" if differing else ""


def mlflow_fault(project: Project, steps: list[int]) -> str:
    """Describe which points of the GPT's last training MLflow is missing or has twice, when all journals are sent."""
    return wait_until_empty(lambda: _mlflow_fault(project, steps), MLFLOW_SECONDS)


def _mlflow_fault(project: Project, steps: list[int]) -> str:
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt"]
    finished = [run for run in runs if run["status"] == "FINISHED"]  # a killed run may follow the last finished one
    if not finished:
        return f"MLflow has {runs}"
    if finished[-1]["steps"] != steps:
        return f"MLflow has the steps {finished[-1]['steps']}, not {steps}"
    return "a run is still RUNNING" if "RUNNING" in project.statuses() else ""
