"""MLflow fails: a stage loses no time and no point, reports it once, and `bukva sync` completes what is missing.

It is dead, slow, locked or killed, or answers with garbage. test_sync.py has answers that are lost, and refusals.
"""

import contextlib
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest
from tracking.runs import cache, every, files, points
from typer.testing import CliRunner

from bukva.cli.app import app
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.processes import LOG, free_port
from bukva.project.curves import read_curve
from bukva.serving.mlflow_server import mlflow_server
from bukva.text.ids import bits
from bukva.tracking.record import CURVE, read_runs, recorded
from bukva.tracking.store import connect
from tests.support.imports import SHIPPED
from tests.support.running import select, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

SENTENCE = "MLflow is missing results of train-gpt. Run `bukva sync` to send them (log: .bukva/mlflow.log).\n"
SECRETS = ("c0rrect-horse", "b@ttery-st@ple", "a-t0ken")
PATIENCE_SECONDS = 60  # of these tests, on a busy machine
STAGE = f"""
import sys, time; from pathlib import Path
import bukva.tracking.record
from bukva.core.params import read_params; from bukva.tracking.record import recorded
params = read_params(Path({str(SHIPPED)!r}))
"""


def with_password(port):
    return f"http://me:{SECRETS[0]}@127.0.0.1:{port}"


@contextlib.contextmanager
def mlflow_at(port):
    """A real MLflow server, which other machines cannot reach, and whose processes end with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr("bukva.serving.mlflow_server.start_sync", lambda: None)
        with mlflow_server(port) as server:
            wait_until(server.is_ready)
            family = [psutil.Process(server.process.pid), *psutil.Process(server.process.pid).children(recursive=True)]
            sockets = [one for each in family for one in each.net_connections("inet")]
            assert port in {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN}
            assert {one.laddr.ip for one in sockets} == {"127.0.0.1"}
            patch.setenv("MLFLOW_TRACKING_URI", with_password(port))
            yield
    assert not [each for each in family if each.is_running()]


class Garbage(BaseHTTPRequestHandler):
    """Answers like a proxy in front of a server that does not respond."""

    def do_GET(self):
        self.send_response(504)
        self.send_header("Retry-After", "3600")
        self.end_headers()
        self.wfile.write(b"<html>Gateway Timeout" * 1000)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        """Nothing: a test looks at what a stage prints."""


@pytest.fixture
def garbage():
    with HTTPServer(("127.0.0.1", 0), Garbage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield with_password(server.server_port)
        server.shutdown()


@pytest.fixture
def trial(project, monkeypatch):
    """The root of a project whose experiment has a name of its own; at the end, no file in it contains a secret."""
    monkeypatch.setattr("bukva.tracking.record.WAIT_SECONDS", PATIENCE_SECONDS)  # however busy the machine is
    monkeypatch.setenv("DVC_EXP_NAME", f"trial-{uuid.uuid4().hex[:8]}")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRETS[1])
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", SECRETS[2])
    yield project
    for sender in senders():
        sender.kill()
    written = b"".join(file.read_bytes() for file in project.rglob("*") if file.is_file())
    assert not [secret for secret in SECRETS if secret.encode() in written]


@pytest.fixture
def own_database(trial, empty_database):
    return Path(shutil.copy(empty_database, trial / "mlflow.db"))


def senders():
    """The senders of the stages of this process that still run; a zombie has no command line."""
    return select(psutil.Process().children(), lambda process: "live" in process.cmdline())


@contextlib.contextmanager
def quick_training(params):
    """A training with points before and after the block, and an artifact at the end."""
    curve = Path("reports/curves/train_gpt.csv")
    points = [{"step": step, "val_nats_per_char": loss, "at": step} for step, loss in ((100, 3.0), (200, 2.0))]
    with recorded("train-gpt", params) as recorder:
        recorder.curve(points[:1])
        yield recorder
        recorder.curve(points)
        write_text(curve, "w" * 10)
        cache(curve)


def log_of(project):
    """What the senders printed, after all of them have ended."""
    wait_until(lambda: not senders())
    return (project / LOG).read_text().splitlines()


def bukva(command, status=0):
    """What the command prints, which is one line without a secret."""
    done = CliRunner().invoke(app, [command])
    printed = done.output + (f"{done.exception}\n" if isinstance(done.exception, BukvaError) else "")
    assert (done.exit_code, printed.count("\n")) == (status, 1), printed
    assert not [secret for secret in SECRETS if secret in printed]
    return printed


def is_live():
    return any("val_nats_per_char" in run.data.metrics for run in of_trial(connect()))


def of_trial(store):
    (made,) = read_runs()
    return every(store, f"tags.`bukva.key` = '{made.key}'")


def sync_completes():
    """`bukva sync` makes MLflow have all that was recorded: two runs, every point once, the artifact, the end."""
    assert bukva("sync").endswith("has the results of 1 stage execution.\n")
    store, (made,) = connect(), read_runs()
    whole, training = sorted(of_trial(store), key=lambda run: "bukva.stage" in run.data.tags)
    end, expected = made.state()[0], {}
    for point in read_curve((made.folder / CURVE).read_text()):
        step, at = int(point.pop("step")), int(point.pop("at"))
        for name, value in point.items():
            expected.setdefault(name, []).append((step, value, at))
    for name in list(expected):
        expected[name.replace("nats", "bits")] = [(step, bits(value), at) for step, value, at in expected[name]]
    expected["seconds"] = [(0, end["seconds"], end["at"])]
    assert {name: points(store, training, name) for name in training.data.metrics} == expected
    assert {whole.info.status, training.info.status} == {"FINISHED"}
    assert files(store, training) == [("train_gpt.csv", 10)]


def test_a_server_that_goes_away_is_completed_when_it_is_back_and_so_is_another_store(
    own_database, empty_database, trial, params, monkeypatch, capfd
):
    port = free_port(0)
    with contextlib.ExitStack() as training, mlflow_at(port):
        training.enter_context(quick_training(params))
        wait_until(is_live)
    assert capfd.readouterr() == ("", SENTENCE)
    [line] = [line for line in log_of(trial) if "Connection refused" in line]
    assert f"http://***@127.0.0.1:{port}" in line
    monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(port))
    assert "Connection refused" in bukva("sync", status=1)
    with mlflow_at(port):
        sync_completes()
    other = shutil.copy(empty_database, trial / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{other}")
    sync_completes()


def test_a_training_is_shown_while_it_runs_with_the_stages_before_it_and_when_it_was_killed(own_database, params):
    def shown():
        runs = [run for run in every(connect()) if run.data.params]
        return {run.data.tags.get("bukva.stage", ""): run.info.status for run in runs}

    program = f"""{STAGE}
with recorded("train-gpt", params) as recorder:
    recorder.curve([{{"step": 100, "val_nats_per_char": 3.0}}])
    time.sleep(600)
"""
    with recorded("clean", params):
        pass
    with subprocess.Popen([sys.executable, "-c", program]) as stage:
        wait_until(lambda: shown() == {"": "RUNNING", "clean": "FINISHED", "train-gpt": "RUNNING"})
        stage.kill()
    wait_until(lambda: shown() == {"": "KILLED", "clean": "FINISHED", "train-gpt": "KILLED"})


@pytest.mark.parametrize("fault", ["database is locked", "504", "killed"])
def test_a_fault_is_reported_once_and_completed_later(own_database, trial, garbage, params, monkeypatch, capfd, fault):
    if fault == "504":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", garbage)
    with contextlib.closing(sqlite3.connect(own_database)) as other:
        with quick_training(params):
            if fault == "database is locked":
                other.execute("BEGIN EXCLUSIVE")
            elif fault == "killed":
                wait_until(is_live)
                senders()[0].kill()
        assert capfd.readouterr() == ("", SENTENCE)
        lines = log_of(trial)
    assert [fault in line for line in lines] == ([] if fault == "killed" else [True])
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    sync_completes()


def test_a_tracker_that_hangs_does_not_slow_a_stage(trial, monkeypatch):
    """It opens no socket, imports no mlflow and starts no process while it trains; then it waits for WAIT_SECONDS."""
    program = f"""{STAGE}
done = []
def listen(event, _):
    if event.startswith(("socket.", "subprocess.", "os.fork", "os.posix_spawn")):
        done.append(event)
sys.addaudithook(listen)
bukva.tracking.record.WAIT_SECONDS = 1
with recorded("train-gpt", params) as recorder:
    done.clear()
    for step in range(1000):
        recorder.curve([{{"step": step, "val_nats_per_char": 3.0}}])
    print(done, "mlflow" in sys.modules)
    ended_at = time.monotonic()
assert 1 <= time.monotonic() - ended_at < 5
"""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(listener.getsockname()[1]))
        stage = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert (stage.stdout, stage.stderr) == ("[] False\n", "")  # its sender is not done, and may still succeed
