"""MLflow fails: a stage loses no time and no point, reports it once, and `bukva sync` completes what is missing."""

import contextlib
import http.client
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from tracking.runs import short_name
from typer.testing import CliRunner

from bukva.base.errors import BukvaError
from bukva.base.loopback import answers, free_port
from bukva.base.units import bits
from bukva.cli.app import app
from bukva.config.schema import Params
from bukva.tracking import background, ui
from bukva.tracking.background import LOG, LOG_BYTES
from bukva.tracking.journal import journal
from bukva.tracking.notes import add_section
from bukva.tracking.reading import read_journals
from bukva.tracking.store import connect
from bukva.tracking.writing import Log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

REPOSITORY = Path(__file__).resolve().parents[2]
SENTENCE = "MLflow does not have all of train-gpt; bukva sync completes it (the reason is in .bukva/mlflow.log).\n"
SECRETS = ("c0rrect-horse", "b@ttery-st@ple", "a-t0ken")
PATIENCE_SECONDS = 60  # of these tests, on a busy machine
STAGE = f"""
import sys, time; from pathlib import Path
import bukva.tracking.journal
from bukva.config.load import read_params; from bukva.tracking.journal import journal
params = read_params(Path({str(REPOSITORY / "params.yaml")!r}))
"""


def wait_until(true: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(0.2)


def with_password(port: int) -> str:
    return f"http://me:{SECRETS[0]}@127.0.0.1:{port}"


def kill(pid: int) -> None:
    """Kill a process and those that it started, as the end of a machine does."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (*process.children(recursive=True), process):
            each.kill()


@pytest.fixture(scope="module")
def shared_port(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[int]:
    """The port of a real MLflow server that all tests share; each has an experiment of its own there."""
    folder, port = tmp_path_factory.mktemp("server"), free_port(0)
    shutil.copy(empty_database, folder / "server.db")
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{folder / 'server.db'}",
        "MLFLOW_ARTIFACTS_DESTINATION": str(folder / "server"),
    }
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until(lambda: answers(port))
        yield port
    finally:
        kill(process.pid)
        process.wait()


class Proxy(ThreadingHTTPServer):
    """Passes calls on to a server, or fails as a test wants."""

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passes)
        self.port_behind, self.refuses, self.loses = behind, False, False
        self.lost: set[str] = set()  # calls that the server executed and whose answer was lost

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: the client may be gone."""


class _Passes(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refuses:
            status, answer = 500, b"<html>Internal Server Error</html>"
        else:
            behind = http.client.HTTPConnection("127.0.0.1", self.server.port_behind)
            behind.request(self.command, self.path, body, dict(self.headers))
            response = behind.getresponse()
            status, answer = response.status, response.read()
        if self.server.loses and self.command == "POST" and "search" not in self.path:
            status, answer = 504, b"Gateway Timeout"
            self.server.lost.add(self.path.rpartition("/")[2])
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Retry-After", "3600")
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing: a test looks at what a stage prints."""


@pytest.fixture
def proxy(shared_port: int, trial: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")  # without MLflow's pauses between tries
    with Proxy(shared_port) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(proxy.server_port))
        yield proxy
        proxy.shutdown()


@pytest.fixture
def trial(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The root of a project whose experiment has a name of its own; at the end, no file in it contains a secret."""
    monkeypatch.setattr("bukva.tracking.journal.WAIT_SECONDS", PATIENCE_SECONDS)  # however busy the machine is
    monkeypatch.setenv("DVC_EXP_NAME", f"trial-{uuid.uuid4().hex[:8]}")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRETS[1])
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", SECRETS[2])
    yield project
    for pid in [follower.pid for follower in followers()]:
        kill(pid)
    written = b"".join(file.read_bytes() for file in project.rglob("*") if file.is_file())
    assert not [secret for secret in SECRETS if secret.encode() in written]


@pytest.fixture
def own_database(trial: Path, empty_database: Path) -> Path:
    return Path(shutil.copy(empty_database, trial / "mlflow.db"))


def followers() -> list[psutil.Process]:
    """The followers of the stages of this process that still run."""
    found = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "follow" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@contextlib.contextmanager
def quick_training(params: Params, artifact_bytes: int = 10) -> Iterator[Log]:
    """A training with points before and after the block, and an artifact at the end."""
    weights = Path("weights")
    weights.write_bytes(b"w" * artifact_bytes)
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
        yield log
        log.metrics({"val_nats_per_char": 2.0}, 200)
        log.artifact(weights)


def log_of(project: Path) -> list[str]:
    """What the followers printed, after all of them have ended."""
    wait_until(lambda: not followers())
    return (project / LOG).read_text().splitlines()


def sync() -> None:
    printed = bukva("sync", status=0)
    assert printed.endswith("has all 1 stage executions.\n")


def bukva(command: str, status: int) -> str:
    """What the command prints, which is one line without a secret."""
    done = CliRunner().invoke(app, [command])
    printed = done.output + (f"{done.exception}\n" if isinstance(done.exception, BukvaError) else "")
    assert (done.exit_code, printed.count("\n")) == (status, 1), printed
    assert not [secret for secret in SECRETS if secret in printed]
    return printed


def points_kept() -> list[tuple[str, int, float, int]]:
    (kept,) = read_journals()
    return sorted(
        (shown, record["step"], number, record["at"])
        for record in kept.read()[0]
        if record["record"] == "metrics"
        for name, value in record["values"].items()
        for shown, number in {
            name: value,
            name.replace("nats", "bits"): bits(value) if "nats" in name else value,
        }.items()
    )


def points_shown() -> list[tuple[str, int, float, int]]:
    """The points of the training in MLflow, which has its run once."""
    store, (kept,) = connect(), read_journals()
    (run,) = [run for run in store.runs(kept.key) if short_name(run) == "train-gpt"]
    return sorted(
        (name, point.step, point.value, point.timestamp)
        for name in run.data.metrics
        for point in store.client.get_metric_history(run.info.run_id, name)
    )


def is_all_there() -> bool:
    """Whether MLflow has all that the journal has: two runs, every point once, the artifact, the end."""
    store, (kept,) = connect(), read_journals()
    whole, training = sorted(store.runs(kept.key), key=lambda run: short_name(run) == "train-gpt")
    return (
        points_shown() == points_kept()
        and {whole.info.status, training.info.status} == {"FINISHED"}
        and [file.path for file in store.client.list_artifacts(training.info.run_id)] == ["weights"]
    )


def is_live() -> bool:
    """Whether the first point of the training is in MLflow."""
    store, (kept,) = connect(), read_journals()
    return any("val_nats_per_char" in run.data.metrics for run in store.runs(kept.key))


def test_a_server_that_answers_every_call_with_an_error_does_not_stop_a_stage(
    proxy: Proxy, trial: Path, params: Params, capfd: pytest.CaptureFixture[str]
) -> None:
    proxy.refuses = True
    with quick_training(params):
        pass
    assert capfd.readouterr() == ("", SENTENCE)
    (line,) = log_of(trial)
    for word in (f"http://***@127.0.0.1:{proxy.server_port}", "train-gpt-001", "500 error responses", "bukva sync"):
        assert word in line
    proxy.refuses = False
    sync()
    assert is_all_there()


def test_a_server_that_recovers_gets_all_while_the_training_runs(
    proxy: Proxy, trial: Path, params: Params, capfd: pytest.CaptureFixture[str]
) -> None:
    proxy.refuses = True
    with quick_training(params):
        wait_until((trial / LOG).read_text)
        proxy.refuses = False
        wait_until(is_live)
    assert capfd.readouterr() == ("", "")
    assert len(log_of(trial)) == 1
    assert is_all_there()


def test_calls_whose_answers_were_lost_double_nothing(proxy: Proxy, params: Params) -> None:
    proxy.loses = True
    with quick_training(params):
        wait_until(lambda: proxy.lost >= {"create", "log-batch"})
        proxy.loses = False
    wait_until(lambda: not followers())
    sync()
    assert is_all_there()


def test_notes_arrive_once_from_a_process_beside_also_after_errors(proxy: Proxy, trial: Path, params: Params) -> None:
    with quick_training(params):
        pass
    (kept,) = read_journals()
    name, store = kept.start["experiment"], connect()

    def description() -> str:
        (run,) = [run for run in store.runs(kept.key) if short_name(run) == name]
        return run.data.tags["mlflow.note.content"]

    assert add_section(name, "against a", "no verdict")
    proxy.refuses = True
    background.start_sync([name])
    wait_until((trial / LOG).read_text)
    proxy.refuses, proxy.loses = False, True
    proxy.lost.clear()
    background.start_sync([name])
    wait_until(lambda: "log-batch" in proxy.lost)
    proxy.loses = False
    assert add_section(name, "against a", "a is better")
    background.start_sync(["another", name])
    wait_until(lambda: "a is better" in description())
    assert (description().count("### against a"), "no verdict" in description()) == (1, False)


def test_a_server_that_goes_away_is_completed_later_and_so_is_another_store(
    own_database: Path,
    trial: Path,
    proxy: Proxy,
    shared_port: int,
    params: Params,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with quick_training(params):
        wait_until(is_live)
        proxy.shutdown()
        proxy.server_close()
    assert capfd.readouterr() == ("", SENTENCE)
    assert "Connection refused" in log_of(trial)[-1]
    for uri in (with_password(shared_port), f"sqlite:///{own_database}"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        sync()
        assert is_all_there()


def test_a_command_reports_an_error_in_a_line_without_the_password(
    trial: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(free_port(0)))
    assert "Connection refused" in bukva("sync", status=1)


def test_a_server_gets_everything_once_and_commands_print_no_password(
    trial: Path, params: Params, shared_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(shared_port))
    with quick_training(params) as log:
        log.metrics({"val_nats_per_char": float("inf")}, 150)
    assert log_of(trial) == []
    store, (kept,) = connect(), read_journals()
    before = points_shown()
    assert [(name, step) for name, step, _, _ in before] == [(name, step) for name, step, _, _ in points_kept()]
    (run,) = [run for run in store.runs(kept.key) if short_name(run) == "train-gpt"]
    store.client.delete_tag(run.info.run_id, "bukva.synced")
    sync()
    assert points_shown() == before
    assert [file.path for file in store.client.list_artifacts(run.info.run_id)] == ["weights"]
    with ui.mlflow_server() as server:
        assert server.page().startswith(f"http://127.0.0.1:{shared_port}/#/experiments/")


def test_a_database_locked_by_another_process_is_completed_later(
    own_database: Path, trial: Path, params: Params, capfd: pytest.CaptureFixture[str]
) -> None:
    program = f"import sqlite3, sys; c = sqlite3.connect({str(own_database)!r}); c.execute('BEGIN EXCLUSIVE')"
    command = [sys.executable, "-c", f"{program}; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        with quick_training(params):
            pass
        (line,) = log_of(trial)
        holder.kill()
    assert capfd.readouterr() == ("", SENTENCE)
    assert "database is locked" in line
    sync()
    assert is_all_there()


def test_a_read_only_database_is_completed_later(
    trial: Path,
    params: Params,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = trial / "база"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    with read_only(folder, monkeypatch), quick_training(params):
        pass
    assert capfd.readouterr() == ("", SENTENCE)
    (line,) = log_of(trial)
    assert "readonly database" in line
    sync()
    assert is_all_there()


@contextlib.contextmanager
def read_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a folder read-only for followers: by its permissions, or for root, who may write everywhere, by a mount."""
    if os.getuid():
        folder.chmod(0o555)
        (folder / "mlflow.db").chmod(0o444)
        yield
        folder.chmod(0o755)
        (folder / "mlflow.db").chmod(0o644)
        return
    mount = f"mount --bind '{folder}' '{folder}' && mount -o remount,ro,bind '{folder}'"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("root is not permitted to mount anything here")
    python = folder.with_name("python")
    python.write_text(f'#!/bin/sh\nexec unshare -m sh -c "{mount} && exec \'{sys.executable}\' \\"\\$@\\"" sh "$@"\n')
    python.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        yield


@pytest.mark.parametrize("full", ["database", "artifacts"])
def test_a_store_on_a_full_disk_is_completed_later(
    own_database: Path, trial: Path, params: Params, capfd: pytest.CaptureFixture[str], full: str
) -> None:
    limit = own_database.stat().st_size + 100_000
    with quick_training(params, artifact_bytes=2 * limit if full == "artifacts" else 10) as log:
        wait_until(is_live)
        (follower,) = followers()
        resource.prlimit(follower.pid, resource.RLIMIT_FSIZE, (limit, limit))
        for step in range(2000 if full == "database" else 0):
            log.metrics({"train_nats_per_char": 2.5}, step)
    assert capfd.readouterr() == ("", SENTENCE)
    (line,) = log_of(trial)
    assert ("disk" if full == "database" else "File too large") in line
    sync()
    assert is_all_there()


def test_followers_that_start_at_the_same_time_create_one_database_and_double_nothing(trial: Path) -> None:
    """Two trainings in each of two experiments, so that two followers fill the same journals."""
    program = f"""{STAGE}
with journal("train-gpt", params) as log:
    step = 0
    while step < 20 or not Path("mlflow.db").exists():
        step += 1
        log.metrics({{"val_nats_per_char": 1 / step}}, step)
        time.sleep(0.1)
"""
    stages = [
        subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "DVC_EXP_NAME": f"trial-{number}"})
        for number in (1, 1, 2, 2)
    ]
    assert [stage.wait() for stage in stages] == [0, 0, 0, 0]
    store = connect()
    wait_until(lambda: [run.info.status for run in store.runs()] == ["FINISHED"] * 6)
    runs = {run.data.tags.get("bukva.journal"): run for run in store.runs()}
    for kept in read_journals():
        shown = store.client.get_metric_history(runs[kept.id].info.run_id, "val_nats_per_char")
        steps = [record["step"] for record in kept.read()[0] if "val_nats_per_char" in record.get("values", {})]
        assert [point.step for point in shown] == steps
    assert (trial / LOG).read_text() == ""


def test_a_killed_follower_is_reported_once_and_completed_later(
    own_database: Path, params: Params, capfd: pytest.CaptureFixture[str]
) -> None:
    with quick_training(params):
        wait_until(is_live)
        (follower,) = followers()
        follower.kill()
    assert capfd.readouterr() == ("", SENTENCE)
    sync()
    assert is_all_there()


def test_a_follower_killed_while_it_creates_the_database_leaves_no_broken_one(trial: Path, params: Params) -> None:
    with quick_training(params):
        unfinished = trial / "mlflow.db.unfinished"
        wait_until(lambda: unfinished.exists() and unfinished.stat().st_size > 200_000)
        (follower,) = followers()
        follower.kill()
    assert not (trial / "mlflow.db").exists()
    sync()
    assert is_all_there()
    assert not list(trial.glob("mlflow.db?*"))


def test_a_tracker_that_hangs_does_not_slow_a_stage(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens no socket, imports no mlflow and starts no process while it trains; then it waits for WAIT_SECONDS."""
    program = f"""{STAGE}
done = []
def listen(event, _):
    if event.startswith(("socket.", "subprocess.", "os.fork", "os.posix_spawn")):
        done.append(event)
sys.addaudithook(listen)
bukva.tracking.journal.WAIT_SECONDS = 1
with journal("train-gpt", params) as log:
    done.clear()
    for step in range(1000):
        log.metrics({{"val_nats_per_char": 3.0}}, step)
    print(done, "mlflow" in sys.modules)
    ended_at = time.monotonic()
assert 1 <= time.monotonic() - ended_at < 5
"""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(listener.getsockname()[1]))
        stage = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert (stage.stdout, stage.stderr) == ("[] False\n", "")  # its follower is not done, and may still succeed


def test_a_log_that_is_too_long_is_emptied(trial: Path) -> None:
    (trial / LOG).parent.mkdir()
    (trial / LOG).write_bytes(b"x" * (LOG_BYTES + 1))
    assert background.start("follow", "nowhere").wait() == 1
    assert (trial / LOG).stat().st_size < LOG_BYTES
