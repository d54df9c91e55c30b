"""Faults in the environment of the pipeline: full disk, broken MLflow, concurrent commands and a diverging loss."""

import contextlib
import re
import socket
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bukva.core.processes import free_port
from chaos.project import Project
from chaos.running import wait_until_empty
from chaos.setup import (
    LONG,
    SHORT,
    Setup,
    difference,
    difference_between,
    mlflow_fault,
    start_training,
    train_uninterrupted,
)

# Limit of the file size for each stage, in bytes: below the size of one of its outputs, above the size of its journal.
MAX_BYTES = {
    "download": 5500,
    "clean": 5500,
    "tokenize": 6000,
    "split": 6000,
    "train-bigram": 6000,
    "train-gpt": 6000,
    "evaluate": 2000,
}
BETWEEN_MODEL_AND_CHECKPOINT = 30_000
REMEDY = "bukva sync`"  # part of the message of a stage, or of its sender in the log, if MLflow is missing results
SENDERS_LOG = ".bukva/mlflow.log"
DIVERGED = r"diverged at step \d+, learning rate \S+: .*\. The last checkpoint, of step \d+, "


# ---- the disk


def fill_disk(setup: Setup, tries: int) -> list[str]:
    """Limit the file size of each stage in turn, then run `dvc repro` without a limit.

    With the limit, the stage must print one message, exit with status 1 and leave no unfinished file.
    """
    project = setup.new_project("full")
    verdicts = [_fill_disk(project, stage, n_bytes) for stage, n_bytes in list(MAX_BYTES.items())[:tries]]
    project.run("dvc", "repro")
    fault = difference(project, setup.reference) or mlflow_fault(project, SHORT)
    return [fault or verdict for verdict in verdicts]


def _fill_disk(project: Project, stage: str, n_bytes: int) -> str:
    running = project.start("dvc", "repro", stage, CHAOS=f"{stage}:full:{n_bytes}")
    status, printed = running.wait(), running.printed
    one_sentence = printed.count("File too large. Existing files are intact") == 1 and "Traceback" not in printed
    torn = [path for path in project.leftovers() if not path.startswith(".bukva/checkpoints")]
    failed = status and "exited with 1" in printed
    return "" if failed and one_sentence and not torn else f"{stage}: left {torn}, printed {printed}"


def fill_disk_for_checkpoints(setup: Setup, tries: int) -> list[str]:
    """Leave no space for checkpoints and for MLflow's database, then run `bukva sync`.

    The training must continue, end normally and report the fault once.
    """
    return [_fill_disk_for_checkpoints(setup.with_seed(10 + number)) for number in range(tries)]


def _fill_disk_for_checkpoints(project: Project) -> str:
    trap = f"train-gpt:full:{BETWEEN_MODEL_AND_CHECKPOINT}"
    printed = project.run("dvc", "repro", "train-gpt", CHAOS=trap)
    reported = printed.count("could not save the checkpoint at step") == 1 and _is_reported(project, printed)
    project.sync()
    return mlflow_fault(project, SHORT) or ("" if reported else f"it did not report it: {printed}")


# ---- MLflow


@dataclass(frozen=True)
class BadStore:
    """A tracking URI at which MLflow does not work.

    uri: the tracking URI.
    open: context manager that keeps the store in this state, for example by a listening socket or a lock.
    """

    uri: str
    open: contextlib.AbstractContextManager[object]


def break_mlflow(setup: Setup, tries: int) -> list[str]:
    """Train with an MLflow that is dead, hanging, corrupt or locked, then run `bukva sync` into another store."""
    stores = _bad_stores(setup.scratch)[:tries]
    return [_train_with(store, setup.with_seed(20 + number)) for number, store in enumerate(stores)]


def _train_with(store: BadStore, project: Project) -> str:
    with store.open:
        printed = project.run("dvc", "repro", "train-gpt", MLFLOW_TRACKING_URI=store.uri)
    reported = _is_reported(project, printed)
    project.sync()
    return mlflow_fault(project, SHORT) or ("" if reported else f"it did not report it: {printed}")


def _is_reported(project: Project, printed: str) -> bool:
    """Return whether missing results in MLflow were reported: once by the stage, or by its sender in the log.

    The sender can write the log later than the stage ends.
    """
    log = project.folder / SENDERS_LOG
    if REMEDY in printed:
        return printed.count(REMEDY) == 1
    return not wait_until_empty(lambda: not log.exists() or REMEDY not in log.read_text(encoding="utf-8"), 90.0)


def _bad_stores(scratch: Path) -> list[BadStore]:
    corrupt, locked = scratch / "corrupt.db", scratch / "locked.db"
    corrupt.write_text("not a database " * 1000)
    listener = socket.create_server(("127.0.0.1", 0))
    return [
        BadStore(f"http://127.0.0.1:{free_port(0)}", contextlib.nullcontext()),
        BadStore(f"http://127.0.0.1:{listener.getsockname()[1]}", listener),
        BadStore(f"sqlite:///{corrupt}", contextlib.nullcontext()),
        BadStore(f"sqlite:///{locked}", _lock(locked)),
    ]


@contextlib.contextmanager
def _lock(database: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("create table one (a)")  # MLflow would initialize an empty file
        connection.execute("begin exclusive")
        yield


def start_four_workers(setup: Setup, tries: int) -> list[str]:
    """Run a queue of four experiments with four workers, without an MLflow database.

    Each experiment must be in MLflow once.
    """
    return [_start_four_workers(setup, number) for number in range(tries)]


def _start_four_workers(setup: Setup, number: int) -> str:
    project = setup.with_seed(90 + number)
    project.commit("for the queue")
    for file in project.folder.glob("mlflow.db*"):
        file.rename(setup.scratch / f"{number}-{file.name}")
    project.run("dvc", "exp", "run", "--queue", "-n", f"four{number}", "-S", "train_gpt.n_steps=401,402,403,404")
    project.run("dvc", "exp", "run", "--run-all", "-j", "4")
    project.sync()
    expected = [[*SHORT, last] for last in (401, 402, 403, 404)]
    finished = [run["steps"] for run in project.training_runs() if run["status"] == "FINISHED"]
    if not all(finished.count(steps) == 1 for steps in expected):
        return f"MLflow has {finished}"
    return "a run is still RUNNING" if "RUNNING" in project.statuses() else ""


# ---- concurrent pipelines, and a diverging loss


def run_two_pipelines(setup: Setup, tries: int) -> list[str]:
    """Run a second `dvc repro` while the first one trains.

    DVC must refuse the second command, and the outputs must equal the outputs of an undisturbed run.
    """
    return [_run_two_pipelines(setup.with_seed(40 + number, LONG)) for number in range(tries)]


def _run_two_pipelines(project: Project) -> str:
    first = start_training(project, "dvc", "repro", "train-gpt")
    refused = project.run("dvc", "repro", "train-gpt", ok=False)
    if "is busy" not in refused and "lock" not in refused:
        return f"DVC did not say why: {refused}"
    if first.wait():
        return first.printed
    if fault := mlflow_fault(project, LONG):
        return fault
    return difference_between(project.outputs(), train_uninterrupted(project))


def diverge(setup: Setup, tries: int) -> list[str]:
    """Train with a learning rate at which the loss explodes.

    The stage must print one message and keep the last good checkpoint, and the run must get status FAILED.
    """
    return [_diverge(setup, 50 + number) for number in range(tries)]


def _diverge(setup: Setup, seed: int) -> str:
    project = setup.with_seed(seed, learning_rate=1e6, grad_clip=0.0, optimizer="adamw")
    printed = project.run("dvc", "repro", "train-gpt", ok=False)
    reported = re.search(DIVERGED, printed) and "Traceback" not in printed
    status, kept = project.training_runs()[-1]["status"], project.checkpoints("train-gpt")
    return "" if reported and status == "FAILED" and kept else f"{status}, {len(kept)} checkpoints: {printed}"
