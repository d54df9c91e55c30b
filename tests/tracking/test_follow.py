"""MLflow beside a stage: live when it works, out of the way when it does not."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bukva.base.files import write_json
from bukva.config.schema import Params
from bukva.tracking.background import LOG
from bukva.tracking.journal import WAIT_SECONDS, journal
from bukva.tracking.records import Log, read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import View

if TYPE_CHECKING:
    from mlflow.entities import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

SECRET = "c0rrect-horse"
PATIENCE_SECONDS = 60  # of these tests, on a busy machine


def wait_until(true: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(0.2)


def runs(name: str) -> list["Run"]:
    return [run for run in connect().runs() if run.info.run_name == name]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(project: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An MLflow server of its own, by an address with user and password."""
    port = free_port()
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{project / 'server.db'}",
        "MLFLOW_ARTIFACTS_DESTINATION": str(project / "server"),
    }
    (project / "server.db").write_bytes(empty_database.read_bytes())
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    with (project / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=project)
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{SECRET}@127.0.0.1:{port}")
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.fixture
def dead(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that went away."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{SECRET}@127.0.0.1:{free_port()}")


@pytest.fixture
def corrupt(project: Path) -> None:
    """A database that is none."""
    (project / "mlflow.db").write_text("not a database" * 1000)


def test_a_training_is_seen_while_it_runs(project: Path, params: Params) -> None:
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


def test_a_stage_that_fails_is_told_at_once(project: Path, params: Params) -> None:
    with pytest.raises(ValueError, match="no"), journal("clean", params):
        raise ValueError("no")
    assert runs("clean")[0].info.status == "FAILED"
    assert runs("repro-uncommitted")[0].info.status == "FAILED"


def test_a_stage_that_is_killed_is_told_by_its_follower(project: Path, params: Params) -> None:
    program = (
        "import os, signal; from pathlib import Path; from bukva.config.load import read_params;"
        "from bukva.tracking.journal import journal;"
        f"params = read_params(Path({str(Path(__file__).parents[2] / 'params.yaml')!r}))\n"
        "with journal('train-gpt', params): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    wait_until(lambda: runs("repro-uncommitted") and runs("repro-uncommitted")[0].info.status == "KILLED")


@pytest.mark.parametrize(
    ("trouble", "why"),
    [("dead", "ConnectionRefusedError: [Errno 111] Connection refused"), ("corrupt", "file is not a database")],
)
def test_mlflow_in_trouble_neither_stops_a_stage_nor_keeps_it_long(
    project: Path,
    params: Params,
    trouble: str,
    why: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    request.getfixturevalue(trouble)
    started_at = time.monotonic()
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
    assert time.monotonic() - started_at < WAIT_SECONDS + 5
    assert capsys.readouterr().err == (
        "MLflow does not have all of train-gpt yet; make sync completes it (.bukva/mlflow.log says why).\n"
    )
    (line,) = (project / LOG).read_text().splitlines()
    assert why in line
    assert SECRET not in line


def test_commands_tell_trouble_in_a_line_without_the_password(dead: None, params: Params) -> None:
    log = Log("clean", params)
    log.end("FINISHED")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "bukva.tracking", command, *folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, folder in (("sync", []), ("address", []), ("serve", []), ("follow", [str(log.folder)]))
    ]
    for process in processes:
        told, _ = process.communicate()
        assert process.returncode == 1
        assert told.count("\n") == 1
        assert SECRET not in told


def test_processes_that_all_come_first_make_one_database(project: Path, params: Params) -> None:
    for stage in ("train-bigram", "train-gpt"):
        log = Log(stage, params)
        log.metrics({"val_nats_per_char": 3.0}, 100)
        log.end("FINISHED")
    command = [sys.executable, "-m", "bukva.tracking", "sync"]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    store = connect()
    assert sorted(run.info.run_name for run in store.runs()) == ["repro-uncommitted", "train-bigram", "train-gpt"]
    assert len(store.client.get_metric_history(runs("train-gpt")[0].info.run_id, "val_nats_per_char")) == 1


def test_a_server_takes_the_same_without_doubling_and_nobody_reads_its_password(
    project: Path, params: Params, server: str
) -> None:
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
        log.metrics({"val_nats_per_char": float("nan")}, 200)
        write_json(project / "model.json", {})
        log.artifact(project / "model.json")
    store = connect()
    (run,) = runs("train-gpt")
    store.client.delete_tag(run.info.run_id, "bukva.synced")
    View(store).update(read_journals())
    assert len(store.runs()) == 2
    assert len(store.client.get_metric_history(run.info.run_id, "val_nats_per_char")) == 2
    assert [file.path for file in store.client.list_artifacts(run.info.run_id)] == ["model.json"]
    command = [sys.executable, "-m", "bukva.tracking"]
    told = [
        subprocess.run([*command, name], capture_output=True, check=True, text=True) for name in ("sync", "address")
    ]
    assert told[1].stdout.startswith(f"{server}/#/experiments/")
    assert SECRET not in "".join(one.stdout + one.stderr for one in told) + (project / LOG).read_text()
