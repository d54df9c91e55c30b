"""MLflow in trouble: a stage loses no time and no point, tells once, and `make sync` completes what is missing."""

import contextlib
import http.client
import os
import resource
import shutil
import socket
import sqlite3
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

from bukva.config.schema import Params
from bukva.tracking import background
from bukva.tracking.background import LOG, LOG_BYTES
from bukva.tracking.journal import WAIT_SECONDS, journal
from bukva.tracking.records import Log, read_journals
from bukva.tracking.store import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

REPOSITORY = Path(__file__).resolve().parents[2]
SENTENCE = "MLflow does not have all of train-gpt yet; make sync completes it (.bukva/mlflow.log says why).\n"
SECRETS = ("c0rrect-horse", "b@ttery-st@ple", "a-t0ken")
PATIENCE_SECONDS = 60  # of these tests, on a busy machine
STAGE = f"""
import sys; from pathlib import Path
from bukva.config.load import read_params; from bukva.tracking.journal import journal
params = read_params(Path({str(REPOSITORY / "params.yaml")!r}))
"""


def wait_until(true: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def with_password(port: int) -> str:
    return f"http://me:{SECRETS[0]}@127.0.0.1:{port}"


@contextlib.contextmanager
def server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A real MLflow server on the database in a folder; it answers after some seconds."""
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
        yield process
    finally:
        kill(process.pid)
        process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def kill(pid: int) -> None:
    """A process and those it started, as a machine does that goes down."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (*process.children(recursive=True), process):
            each.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Path:
    """The folder of the database behind the server of all tests; each has an experiment of its own there."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_database, folder / "server.db")
    return folder


@pytest.fixture(scope="module")
def shared_port(shared: Path) -> Iterator[int]:
    port = free_port()
    with server(shared, port):
        wait_until(lambda: answers(port))
        yield port


class Proxy(ThreadingHTTPServer):
    """Stands before a server, and is as ill as a test wants it."""

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passes)
        self.behind, self.refuses, self.loses = behind, False, False
        self.lost: set[str] = set()  # calls that were heeded and got no good answer

    def handle_error(self, request: object, client_address: object) -> None:
        """Who asked may be gone."""


class _Passes(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refuses:
            status, answer = 500, b"<html>Internal Server Error</html>"
        else:
            behind = http.client.HTTPConnection("127.0.0.1", self.server.behind)
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
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")  # MLflow's own pauses prove nothing
    with Proxy(shared_port) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(proxy.server_port))
        yield proxy
        proxy.shutdown()


@pytest.fixture
def trial(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The root of a project with an experiment of a name that no other test has; no file in it has a secret later."""
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
    """Those of the stages of this process that still run."""
    found = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "follow" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@contextlib.contextmanager
def quick_training(params: Params, artifact_bytes: int = 10) -> Iterator[Log]:
    """One with points before and after what happens in the block, which ends within the time it has for MLflow."""
    weights = Path("weights")
    weights.write_bytes(b"w" * artifact_bytes)
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
        yield log
        log.metrics({"val_nats_per_char": 2.0}, 200)
        log.artifact(weights)
        ended_at = time.monotonic()
    assert time.monotonic() - ended_at < WAIT_SECONDS + 2


def log_of(project: Path) -> list[str]:
    """What the processes beside the stages said, when all of them have ended."""
    wait_until(lambda: not followers())
    return (project / LOG).read_text().splitlines()


def sync() -> None:
    command = [sys.executable, "-m", "bukva.tracking", "sync"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.stdout.endswith("has all 1 stage executions.\n")
    assert done.returncode == done.stdout.count("\n") - 1 == 0
    assert not [secret for secret in SECRETS if secret in done.stdout]


def points_kept() -> list[tuple[str, int, float, int]]:
    (kept,) = read_journals()
    return sorted(
        (name, record["step"], value, record["at"])
        for record in kept.read()[0]
        if record["record"] == "metrics"
        for name, value in record["values"].items()
    )


def points_shown() -> list[tuple[str, int, float, int]]:
    """Of the training in MLflow, which has its run once."""
    store, (kept,) = connect(), read_journals()
    (run,) = [run for run in store.runs(kept.key) if run.info.run_name == "train-gpt"]
    return sorted(
        (name, point.step, point.value, point.timestamp)
        for name in run.data.metrics
        for point in store.client.get_metric_history(run.info.run_id, name)
    )


def is_all_there() -> bool:
    """Whether MLflow has all that the journal has: two runs, every point once, the artifact, the end."""
    store, (kept,) = connect(), read_journals()
    whole, training = sorted(store.runs(kept.key), key=lambda run: run.info.run_name == "train-gpt")
    return (
        points_shown() == points_kept()
        and {whole.info.status, training.info.status} == {"FINISHED"}
        and [file.path for file in store.client.list_artifacts(training.info.run_id)] == ["weights"]
    )


def is_live() -> bool:
    """Whether the first point of the training is in MLflow."""
    store, (kept,) = connect(), read_journals()
    return any("val_nats_per_char" in run.data.metrics for run in store.runs(kept.key))


def test_a_server_that_answers_every_call_with_an_error_stops_nothing(
    proxy: Proxy, trial: Path, params: Params, capfd: pytest.CaptureFixture[str]
) -> None:
    proxy.refuses = True
    with quick_training(params):
        pass
    assert capfd.readouterr() == ("", SENTENCE)
    (line,) = log_of(trial)
    for word in (f"http://***@127.0.0.1:{proxy.server_port}", "train-gpt-001", "500 error responses", "make sync"):
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


def test_calls_that_were_heeded_but_not_answered_double_nothing(proxy: Proxy, params: Params) -> None:
    proxy.loses = True
    with quick_training(params):
        wait_until(lambda: proxy.lost >= {"create", "log-batch"})
        proxy.loses = False
    wait_until(lambda: not followers())
    sync()
    assert is_all_there()


def test_a_server_that_is_killed_is_completed_later_and_so_is_another_one(
    trial: Path,
    params: Params,
    shared: Path,
    shared_port: int,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(empty_database, tmp_path / "server.db")
    port, other_port = free_port(), free_port()
    with server(shared, port) as process, server(tmp_path, other_port):
        wait_until(lambda: answers(port))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(port))
        with quick_training(params):
            wait_until(is_live)
            kill(process.pid)
        assert capfd.readouterr() == ("", SENTENCE)
        assert "Connection refused" in log_of(trial)[-1]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(shared_port))
        sync()
        assert is_all_there()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(other_port))
        wait_until(lambda: answers(other_port))
        sync()
        assert is_all_there()


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


def test_a_database_that_nobody_may_write_is_completed_later(
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
    """For processes started beside a stage: by its rights, or, as root may write everywhere, mounted so for them."""
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


@pytest.mark.parametrize(
    ("revision", "lost_table", "words"),
    [
        ("75868b020152", "scheduler_leases", "an older MLflow (their version 75868b020152)"),
        ("75868b020152", "", "mlflow db upgrade 'sqlite:///"),
        ("ffffffffffff", "", "a newer MLflow (their version ffffffffffff is unknown here)"),
    ],
)
def test_the_tables_of_another_mlflow_are_left_as_they_are(
    own_database: Path,
    trial: Path,
    params: Params,
    capfd: pytest.CaptureFixture[str],
    revision: str,
    lost_table: str,
    words: str,
) -> None:
    with contextlib.closing(sqlite3.connect(own_database)) as database:
        database.execute("UPDATE alembic_version SET version_num = ?", [revision])
        if lost_table:
            database.execute(f"DROP TABLE {lost_table}")
        database.commit()
    before = own_database.read_bytes()
    with quick_training(params):
        pass
    assert capfd.readouterr() == ("", SENTENCE)
    (line,) = log_of(trial)
    assert words in line
    assert own_database.read_bytes() == before


@pytest.mark.parametrize("full", ["database", "artifacts"])
def test_a_full_disk_below_mlflow_is_completed_later(
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


def test_followers_that_all_come_first_fill_one_database_without_an_error(trial: Path) -> None:
    program = f"""{STAGE}
import time
with journal("train-gpt", params) as log:
    step = 0
    while step < 20 or not Path("mlflow.db").exists():
        step += 1
        log.metrics({{"val_nats_per_char": 1 / step}}, step)
        time.sleep(0.1)
    Path("weights").write_text("w")
    log.artifact(Path("weights"))
"""
    stages = [
        subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "DVC_EXP_NAME": f"trial-{number}"})
        for number in range(4)
    ]
    assert [stage.wait() for stage in stages] == [0, 0, 0, 0]
    store = connect()
    wait_until(lambda: [run.info.status for run in store.runs()] == ["FINISHED"] * 8)
    for kept in read_journals():
        (run,) = [run for run in store.runs(kept.key) if run.info.run_name == "train-gpt"]
        shown = store.client.get_metric_history(run.info.run_id, "val_nats_per_char")
        steps = [record["step"] for record in kept.read()[0] if "val_nats_per_char" in record.get("values", {})]
        assert [point.step for point in shown] == steps
    assert (trial / LOG).read_text() == ""


def test_a_follower_that_is_killed_is_told_once_and_completed_later(
    own_database: Path, params: Params, capfd: pytest.CaptureFixture[str]
) -> None:
    with quick_training(params):
        wait_until(is_live)
        (follower,) = followers()
        follower.kill()
    assert capfd.readouterr() == ("", SENTENCE)
    sync()
    assert is_all_there()


def test_a_follower_that_is_killed_while_it_makes_the_database_leaves_none_that_is_broken(
    trial: Path, params: Params
) -> None:
    with quick_training(params):
        unfinished = trial / "mlflow.db.unfinished"
        wait_until(lambda: unfinished.exists() and unfinished.stat().st_size > 200_000)
        (follower,) = followers()
        follower.kill()
    assert not (trial / "mlflow.db").exists()
    sync()
    assert is_all_there()
    assert not list(trial.glob("mlflow.db?*"))


def test_a_stage_goes_at_full_speed_beside_a_tracker_that_hangs(trial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a clock: it opens no socket, loads no mlflow and starts nothing while it trains."""
    program = f"""{STAGE}
done = []
def listen(event, _):
    if event.startswith(("socket.", "subprocess.", "os.fork", "os.posix_spawn")):
        done.append(event)
sys.addaudithook(listen)
with journal("train-gpt", params) as log:
    done.clear()
    for step in range(1000):
        log.metrics({{"val_nats_per_char": 3.0}}, step)
    print(done, "mlflow" in sys.modules)
"""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", with_password(listener.getsockname()[1]))
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert (told.stdout, told.stderr) == ("[] False\n", SENTENCE)


def test_the_log_does_not_grow_for_ever(trial: Path) -> None:
    (trial / LOG).parent.mkdir()
    (trial / LOG).write_bytes(b"x" * (LOG_BYTES + 1))
    assert background.start("follow", "nowhere").wait() == 1
    assert (trial / LOG).stat().st_size < LOG_BYTES
