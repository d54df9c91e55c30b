"""MLflow shows a stage while it runs, and how it ended."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tracking.runs import short_name

from bukva.config.schema import Params
from bukva.tracking import background
from bukva.tracking.journal import journal
from bukva.tracking.store import connect

if TYPE_CHECKING:
    from mlflow.entities import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

PATIENCE_SECONDS = 60  # of these tests, on a busy machine


def wait_until(true: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(0.2)


def runs(name: str) -> list["Run"]:
    return [run for run in connect().runs() if short_name(run) == name]


@pytest.fixture
def followed(project: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a project with a database, in which a stage waits for its follower, however busy the machine is."""
    monkeypatch.setattr("bukva.tracking.journal.WAIT_SECONDS", PATIENCE_SECONDS)
    shutil.copy(empty_database, project / "mlflow.db")
    return project


def test_a_training_and_the_stages_before_it_are_shown_while_it_runs(followed: Path, params: Params) -> None:
    with journal("clean", params):
        pass
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
        wait_until(lambda: runs("train-gpt") and runs("train-gpt")[0].data.metrics)
        log.metrics({"val_nats_per_char": 2.0}, 200)
        wait_until(lambda: runs("train-gpt")[0].data.metrics["val_nats_per_char"] == 2.0)
        assert runs("train-gpt")[0].info.status == "RUNNING"
        assert runs("repro-uncommitted")[0].info.status == "RUNNING"
        assert runs("clean")[0].info.status == "FINISHED"
        log.metrics({"val_nats_per_char": 1.0}, 300)
    assert runs("train-gpt")[0].info.status == "FINISHED"
    assert runs("train-gpt")[0].data.metrics["val_nats_per_char"] == 1.0


def test_a_stage_that_fails_is_shown_at_once(followed: Path, params: Params) -> None:
    with pytest.raises(ValueError, match="no"), journal("clean", params):
        raise ValueError("no")
    assert runs("clean")[0].info.status == "FAILED"
    assert runs("repro-uncommitted")[0].info.status == "FAILED"


def test_a_stage_that_is_killed_is_shown_by_its_follower(followed: Path, params: Params) -> None:
    program = (
        "import os, signal; from pathlib import Path; from bukva.config.load import read_params;"
        "from bukva.tracking.journal import journal;"
        f"params = read_params(Path({str(Path(__file__).parents[2] / 'params.yaml')!r}))\n"
        "with journal('train-gpt', params): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    wait_until(lambda: runs("repro-uncommitted") and runs("repro-uncommitted")[0].info.status == "KILLED")


@pytest.mark.parametrize(
    ("program", "failed"), [("raise SystemExit(1)", True), ("", False), ("import time; time.sleep(60)", False)]
)
def test_only_a_process_that_ends_with_an_error_has_failed(program: str, failed: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        assert background.has_failed(process, PATIENCE_SECONDS if "sleep" not in program else 0.1) is failed
        if "sleep" in program:
            os.kill(process.pid, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]) == -signal.SIGTERM  # it was left running
