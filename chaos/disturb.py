"""Rows that disturb the environment: full disk, broken MLflow, concurrent commands and a diverging loss."""

import contextlib
import re
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from bukva.core.processes import free_port
from chaos.setup import LONG, SHORT, TRAIN, Row, Setup
from tests.support.project import Project
from tests.support.running import wait_until_empty

# limit of the file size for each stage, in bytes: below the size of one of its outputs, above the sizes of its record
# and of the file to which `dvc repro` prints
MAX_BYTES = {
    "download": 5500, "clean": 5500, "tokenize": 6000, "split": 6000, "train-bigram": 6000, "train-gpt": 6000,
    "evaluate": 3500,
}  # fmt: skip
BETWEEN_MODEL_AND_CHECKPOINT = 30_000
REMEDY = "bukva sync`"  # part of the message of a stage, or of its sender in the log, if MLflow is missing results
SENDERS_LOG = ".bukva/mlflow.log"
DIVERGED = r"diverged at step \d+, learning rate \S+: .*\. The last checkpoint, of step \d+, "


def full_disk(setup: Setup, tries: int) -> Iterator[str]:
    """A full disk, in each stage that writes large files.

    A file size limit (RLIMIT_FSIZE) for the process of the stage; the stage must print one message, exit with status 1
    and leave no incomplete file; then a run without the limit.
    """
    project, verdicts = setup.new_project("full"), list[str]()
    for stage, n_bytes in list(MAX_BYTES.items())[:tries]:
        running = project.start("dvc", "repro", stage, CHAOS=f"{stage}:full:{n_bytes}")
        failed, printed = running.wait(), running.printed
        one_sentence = printed.count("File too large. Existing files are intact") == 1 and "Traceback" not in printed
        torn = [path for path in project.leftovers() if not path.startswith(".bukva/checkpoints")]
        good = failed and "exited with 1" in printed and one_sentence and not torn
        verdicts.append("" if good else f"{stage}: left {torn}, printed {printed}")
    project.run("dvc", "repro")
    fault = setup.lost(project, SHORT)
    yield from (fault or each for each in verdicts)


def no_checkpoint(setup: Setup, number: int) -> str:
    """A full disk for checkpoints and for MLflow's database.

    The limit leaves enough space for the model. The training must continue, report the fault once and exit with 0. Then
    `bukva sync` runs.
    """
    project = setup.with_seed(10 + number)
    printed = project.run(*TRAIN, CHAOS=f"train-gpt:full:{BETWEEN_MODEL_AND_CHECKPOINT}")
    if printed.count("could not save the checkpoint at step") != 1:
        return f"it did not report the checkpoint once: {printed}"
    return _not_reported(project, printed)


# ---- MLflow


def broken_mlflow(setup: Setup, number: int) -> str:
    """An MLflow store that is dead, hanging, corrupt or locked for a whole training.

    MLFLOW_TRACKING_URI names the broken store; the training must report the fault once and exit with 0; then
    `bukva sync` into another store.
    """
    corrupt, project = setup.scratch / "corrupt.db", setup.with_seed(20 + number)
    corrupt.write_text("not a database " * 1000)
    with socket.create_server(("127.0.0.1", 0)) as hanging, _locked(setup.scratch / f"locked-{number}.db") as locked:
        stores = (
            f"http://127.0.0.1:{free_port(0)}", f"http://127.0.0.1:{hanging.getsockname()[1]}", f"sqlite:///{corrupt}",
            f"sqlite:///{locked}",
        )  # fmt: skip
        printed = project.run(*TRAIN, MLFLOW_TRACKING_URI=stores[number])
        return _not_reported(project, printed)


@contextlib.contextmanager
def _locked(database: Path) -> Iterator[Path]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("create table one (a)")  # MLflow would initialize an empty file
        connection.execute("begin exclusive")
        yield database


def _not_reported(project: Project, printed: str) -> str:
    """Check that missing results in MLflow were reported once, and that `bukva sync` sends them. Return the fault.

    They are reported by the stage, or by its sender in the log, which can happen later than the stage ends.
    """
    log = project.folder / SENDERS_LOG
    if REMEDY in printed:
        is_reported = printed.count(REMEDY) == 1
    else:
        is_reported = not wait_until_empty(lambda: not log.exists() or REMEDY not in project.read(SENDERS_LOG), 90.0)
    project.sync()
    return project.mlflow_fault(SHORT) or ("" if is_reported else f"it did not report it: {printed}")


def queue_workers(setup: Setup, number: int) -> str:
    """Four queue workers that start before MLflow's database exists.

    `dvc queue start -j 4`; MLflow must have each training once, with every step.
    """
    project = setup.with_seed(90 + number)
    project.commit("for the queue")
    for file in project.folder.glob("mlflow.db*"):
        file.rename(setup.scratch / f"{number}-{file.name}")
    project.run("dvc", "exp", "run", "--queue", "-n", f"four{number}", "-S", "train_gpt.n_steps=401,402,403,404")
    project.start("dvc", "queue", "start", "-j", "4").wait()  # the workers outlive it
    project.wait_for_queue()
    project.sync()
    finished = [run["steps"] for run in project.gpt_runs("FINISHED")]
    if any(finished.count([*SHORT, last]) != 1 for last in (401, 402, 403, 404)):
        return f"MLflow has {project.training_runs()}"
    return "a run is still RUNNING" if project.has_running_run() else ""


# ---- concurrent pipelines, and a diverging loss


def two_pipelines(setup: Setup, number: int) -> str:
    """Two pipelines at the same time in one repository.

    `dvc repro` while another `dvc repro` trains; DVC must refuse the second command and print the reason; the outputs
    must equal those of an undisturbed run.
    """
    project = setup.with_seed(40 + number, LONG)
    first = project.start_training(*TRAIN)
    refused = project.run(*TRAIN, ok=False)
    if "is busy" not in refused and "lock" not in refused:
        return f"DVC did not say why: {refused}"
    return first.printed if first.wait() else setup.lost(project, LONG)


def diverged(setup: Setup, number: int) -> str:
    """A training that diverges.

    A learning rate of 1e6; the stage must print one message with step, learning rate and last good checkpoint, and keep
    this checkpoint; the run must get the status FAILED.
    """
    project = setup.with_seed(50 + number, learning_rate=1e6, grad_clip=0.0, optimizer="adamw")
    printed = project.run(*TRAIN, ok=False)
    reported = re.search(DIVERGED, printed) and "Traceback" not in printed
    status, kept = project.training_runs()[-1]["status"], project.checkpoints("train-gpt")
    return "" if reported and status == "FAILED" and kept else f"{status}, {len(kept)} checkpoints: {printed}"


ROWS = (
    Row(full_disk, len(MAX_BYTES)), Row(no_checkpoint, 1), Row(broken_mlflow, 4), Row(queue_workers, 1),
    Row(two_pipelines, 1), Row(diverged, 1),
)  # fmt: skip
