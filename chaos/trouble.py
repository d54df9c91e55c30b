"""Faults of what the pipeline stands on: disks, MLflow, numbers, and other pipelines."""

import contextlib
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from chaos.project import ROOT
from chaos.scene import LONG, STEPS, Scene, difference, kill, module, start_training, unfinished

# How many bytes each stage may write into one file: less than an output of it has, more than its journal.
FULL = {
    "download": 5500,
    "clean": 5500,
    "tokenize": 6000,
    "split": 6000,
    "train-bigram": 6000,
    "train-gpt": 6000,
    "evaluate": 9000,
}
BETWEEN_MODEL_AND_CHECKPOINT = 30_000


def full_disk(scene: Scene, tries: int) -> list[str]:
    """Each stage on a disk that takes no more (a limit for files): one sentence, status 1; then dvc repro with room."""
    project, lost = scene.fresh("full"), []
    for stage, n_bytes in list(FULL.items())[:tries]:
        running = project.start("dvc", "repro", stage, CHAOS=f"{stage}:full:{n_bytes}")
        status, printed = running.status(), running.printed
        sentences = re.findall(r"File too large; what was there is intact", printed)
        one = status and len(sentences) == 1 and "exited with 1" in printed and "Traceback" not in printed
        half = [path for path in project.leftovers() if not path.startswith(".bukva/checkpoints")]
        lost.append("" if one and not half else f"{stage}: left {half}, said {printed}")
    project.run("dvc", "repro")
    fault = difference(project, scene.reference) or unfinished(project, STEPS)
    return [fault or one for one in lost]


def full_disk_for_checkpoints(scene: Scene, tries: int) -> list[str]:
    """No room for checkpoints and for MLflow's database: training goes on and ends well; then make sync."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(10 + number)
        trap = f"train-gpt:full:{BETWEEN_MODEL_AND_CHECKPOINT}"
        printed = project.run("dvc", "repro", "train-gpt", CHAOS=trap)
        told = printed.count("no checkpoint at step") == 1 and "make sync completes it" in printed
        project.run("python", "-m", "bukva.tracking", "sync", PYTHONPATH="src")
        lost.append(unfinished(project, STEPS) or ("" if told else f"it did not say so: {printed}"))
    return lost


def mlflow_in_trouble(scene: Scene, tries: int) -> list[str]:
    """No server, one that hangs, a corrupt database, a locked one, for a whole training; then make sync elsewhere."""
    lost = []
    for number, (trouble, uri) in enumerate(_troubles(scene.scratch)[:tries]):
        project = scene.with_seed(20 + number)
        with trouble:
            printed = project.run("dvc", "repro", "train-gpt", MLFLOW_TRACKING_URI=uri)
        told = printed.count("make sync completes it") == 1
        project.run("python", "-m", "bukva.tracking", "sync", PYTHONPATH="src")
        lost.append(unfinished(project, STEPS) or ("" if told else f"it did not say so: {printed}"))
    return lost


def _troubles(scratch: Path) -> list[tuple[contextlib.AbstractContextManager[object], str]]:
    corrupt, locked = scratch / "corrupt.db", scratch / "locked.db"
    corrupt.write_text("no database " * 1000)
    listener = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    return [
        (contextlib.nullcontext(), f"http://127.0.0.1:{nobody}"),
        (listener, f"http://127.0.0.1:{listener.getsockname()[1]}"),
        (contextlib.nullcontext(), f"sqlite:///{corrupt}"),
        (_lock(locked), f"sqlite:///{locked}"),
    ]


@contextlib.contextmanager
def _lock(database: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("create table one (a)")  # an empty file would be taken for one that is to be made
        connection.execute("begin exclusive")
        yield


def four_workers(scene: Scene, tries: int) -> list[str]:
    """A queue of four experiments, four at a time, where there is no MLflow database yet: all arrive, each once."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(90 + number)
        project.commit("for the queue")
        for file in project.folder.glob("mlflow.db*"):
            file.rename(scene.scratch / f"{number}-{file.name}")
        project.run("dvc", "exp", "run", "--queue", "-n", f"four{number}", "-S", "train_gpt.n_steps=401,402,403,404")
        project.run("dvc", "exp", "run", "--run-all", "-j", "4")
        project.run("python", "-m", "bukva.tracking", "sync", PYTHONPATH="src")
        wanted = [[*STEPS, last] for last in (401, 402, 403, 404)]
        found = [run["steps"] for run in project.training_runs() if run["status"] == "FINISHED"]
        fault = "" if all(found.count(steps) == 1 for steps in wanted) else f"MLflow has {found}"
        lost.append(fault or ("a run is left RUNNING" if "RUNNING" in project.statuses() else ""))
    return lost


def two_pipelines(scene: Scene, tries: int) -> list[str]:
    """dvc repro while another one trains: refused in DVC's words, and the first one ends as if it had been alone."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(40 + number, LONG)
        first = start_training(project, "dvc", "repro", "train-gpt")
        refused = project.run("dvc", "repro", "train-gpt", ok=False)
        fault = "" if "is busy" in refused or "lock" in refused else f"it was refused without a word: {refused}"
        fault = fault or ("" if first.status() == 0 else first.printed)
        fault = fault or unfinished(project, LONG)
        mixed = project.outputs()
        whole = scene.forced(project)
        lost.append(fault or ("" if mixed == whole else "the two are mixed"))
    return lost


def diverging(scene: Scene, tries: int) -> list[str]:
    """A learning rate at which the loss explodes: a sentence, status FAILED, and the last good state is kept."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(50 + number, learning_rate=1e20, grad_clip=0.0, optimizer="adamw")
        printed = project.run("dvc", "repro", "train-gpt", ok=False)
        said = re.search(
            r"diverged at step \d+, learning rate \S+: .*; the last good checkpoint, of step \d+, ", printed
        )
        status = project.training_runs()[-1]["status"]
        kept = project.checkpoints("train-gpt")
        sound = said and status == "FAILED" and kept and "Traceback" not in printed
        lost.append("" if sound else f"{status}, {len(kept)} checkpoints: {printed}")
    return lost


def restored_by_dvc(scene: Scene, tries: int) -> list[str]:
    """A killed training whose outputs DVC then restores: the next stage that starts removes its checkpoints."""
    lost = []
    for number in range(tries):
        project = scene.with_seed(60 + number, LONG)
        project.run("dvc", "repro", "train-gpt")
        running = start_training(project, "dvc", "repro", "-f", "-s", "train-gpt")
        kill(project, module("train-gpt"))
        assert running.status(), running.printed
        restored = "is cached" in project.run("dvc", "repro", "train-gpt")
        left = project.checkpoints()
        project.run("dvc", "repro", "sample")
        fault = "" if restored and left else "nothing was left over"
        lost.append(fault or ("" if not project.checkpoints() else "its checkpoints are there for ever"))
    return lost


def by_tests(*paths: str, keyword: str = "") -> Callable[[Scene, int], list[str]]:
    """A fault that tests work, each of which counts as a try."""

    def run(_: Scene, __: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *paths]
            if keyword:
                command += ["-k", keyword]
            subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            cases = ElementTree.parse(report).iter("testcase")
            return [_fault(case) for case in cases if case.find("skipped") is None]

    return run


def _fault(case: ElementTree.Element) -> str:
    broken = case.find("failure") is not None or case.find("error") is not None
    return f"{case.get('classname')}.{case.get('name')}" if broken else ""
