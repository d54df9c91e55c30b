"""MLflow on PostgreSQL: starts, keeps what it has, ends completely."""

import shutil
import signal
import subprocess
import sysconfig
from pathlib import Path

import psutil
import pytest

from bukva.base.errors import BukvaError
from bukva.config.schema import Params
from bukva.tracking import postgres
from bukva.tracking.journal import journal
from bukva.tracking.reading import read_journals
from bukva.tracking.server import FOLDER
from bukva.tracking.store import connect
from bukva.tracking.sync import View

PYTHON = str(Path(sysconfig.get_path("scripts")) / "python")
INSTALLED = shutil.which("postgres") or list(Path(postgres.DEBIAN).glob("*/bin/postgres"))
needs_postgres = pytest.mark.skipif(not INSTALLED, reason="PostgreSQL is not installed")


def start(project: Path) -> tuple["subprocess.Popen[str]", str]:
    """The command and the address that it prints."""
    server = subprocess.Popen(
        [PYTHON, "-m", "bukva.tracking", "server", "--port", "5200"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, cwd=project,
    )  # fmt: skip
    assert server.stdout is not None
    for line in server.stdout:
        if "export MLFLOW_TRACKING_URI=" in line:
            return server, line.rpartition("=")[2].strip()
    raise AssertionError(f"the server ended with {server.wait()}")


@pytest.mark.slow
@needs_postgres
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_keeps_what_it_has_and_leaves_no_process(
    alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch, stop: signal.Signals
) -> None:
    short = Path(shutil.move(alone, f"/tmp/bukva-{stop.name}"))
    monkeypatch.setenv("DVC_ROOT", str(short))
    monkeypatch.chdir(short)
    try:
        server, uri = start(short)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        with journal("clean", params) as log:
            (short / "a.txt").write_text("text")
            log.artifact(short / "a.txt")
        assert View(connect()).update(read_journals()) == []
        family = psutil.Process(server.pid).children(recursive=True)
        server.send_signal(stop)
        assert server.wait(30) == 0
        assert not [process for process in family if process.is_running()]
        server, again = start(short)
        assert again == uri
        [run] = [run for run in connect().runs() if run.data.tags.get("bukva.stage") == "clean"]
        assert run.info.artifact_uri.startswith("mlflow-artifacts:")
        assert [file.name for file in (short / FOLDER / "artifacts").rglob("a.txt")] == ["a.txt"]
        server.terminate()
        server.wait(30)
    finally:
        shutil.rmtree(short)


def test_without_postgresql_the_sentence_says_what_to_install(
    alone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(postgres, "DEBIAN", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    sentence = "is not installed; on Debian and Ubuntu: sudo apt install postgresql"
    with pytest.raises(BukvaError, match=sentence), postgres.postgres(tmp_path / "short"):
        pass
    assert not (tmp_path / "short" / "data").exists()


def test_a_path_that_is_too_long_for_a_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BukvaError, match="too long for a socket"), postgres.postgres(tmp_path / ("long" * 30)):
        pass
