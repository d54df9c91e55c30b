"""Workers of a Ray cluster, and what is said where there is none."""

import socket
import subprocess
import sys
import time

import pytest
from imports import ROOT

from bukva.base.loopback import free_port
from bukva.cluster.job import TRY_AGAIN, Job, News
from bukva.cluster.ray_access import make_token
from bukva.cluster.ray_engine import RayEngine

PATIENCE_SECONDS = 100


def wait_until(true) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_the_token_is_made_once_and_only_its_user_may_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = make_token()
    before = token.read_text()
    assert len(before) == 64
    assert token.stat().st_mode & 0o777 == 0o600
    assert make_token().read_text() == before


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """The address of a cluster of this machine, with a token of its own."""
    home, port = tmp_path_factory.mktemp("home"), free_port(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("BUKVA_NODE", str(home / "node"))
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        with (home / "log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "bukva", "sweep", "head", "--port", str(port)], stdout=log, stderr=log
            )
        wait_until(lambda: "Ray runtime started" in (home / "log").read_text() or process.poll() is not None)
        yield f"127.0.0.1:{port}"
        process.terminate()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_of_a_cluster_answers_as_one_of_this_machine(head):
    engine = RayEngine(head, cores=1)
    assert engine.slots >= 1
    job = Job("try", (), "1" * 40, "/nowhere/origin.git", "", 1, 1, {})
    worker = engine.start(job)
    lines = []
    wait_until(lambda: (lines.extend(worker.news()), worker.status() is not None)[1])
    assert worker.status() == TRY_AGAIN
    assert worker.node == socket.gethostname()
    [news] = map(News.from_json, lines)
    assert news.kind == "end"
    assert "/nowhere/origin.git" in news.values["text"]
    assert engine.has_place()
    lost = engine.start(job)
    lost.release()  # as if its machine were gone
    wait_until(lambda: lost.status() is not None)
    assert lost.status() not in (0, None)
    engine.close()
