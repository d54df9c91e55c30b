"""Ray on this machine opens no port to others, what a sweep lacks is said before it starts, and the table is true."""

import math
import os
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from bukva.core.errors import BukvaError
from bukva.sweep import commands, engine
from bukva.tracking.sync import LATER

LISTENING = """
import psutil
from bukva.sweep.engine import ray_for
with ray_for("", 1, None) as resources:
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = [each.laddr.ip for process in processes for each in process.net_connections() if each.status == "LISTEN"]
    print(len(found), *{ip.removeprefix("::ffff:") for ip in found}, resources["cpu"])
"""
HOLD = """
import sys
from bukva.sweep.engine import driver_lock
with driver_lock("a"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_no_port_of_ray_is_open_to_other_machines_and_tmpdir_may_be_long(tmp_path):
    pytest.importorskip("ray")
    temporary = tmp_path / "temporary files of macOS"
    temporary.mkdir()
    command, env = [sys.executable, "-c", LISTENING], os.environ | {"TMPDIR": str(temporary)}
    printed = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    count, *addresses, cores = printed.split()
    assert int(count) > 3
    assert (addresses, cores) == (["127.0.0.1"], "1")


def test_more_gpus_or_cores_than_ray_finds_are_one_sentence(monkeypatch):
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 8.0}}]
    ray = {"init": lambda **_: None, "shutdown": int, "nodes": lambda: nodes, "cluster_resources": lambda: {"GPU": 1.0}}
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(**ray))
    monkeypatch.setattr(engine, "_check_machines", lambda: None)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    with pytest.raises(BukvaError, match=r"^`--gpus` is inf, but Ray finds 1 GPU\.$"), engine.ray_for("", 2, math.inf):
        pass
    with pytest.raises(BukvaError, match="needs 3 cores, but the largest machine has 2 "), engine.ray_for("", 3, None):
        pass


def test_a_machine_without_shared_storage_or_with_other_packages_is_one_sentence(tmp_path):
    seen, pins = tmp_path / "probe", tmp_path / "numerics.lock"
    seen.touch()
    assert engine.machine_fault([seen], pins) == ""
    assert engine.machine_fault([seen, tmp_path / "away" / "probe"], pins) == (
        f"{socket.gethostname()} does not see this project's folder {tmp_path / 'away'}. A cluster needs shared "
        "storage: clone the project into a folder that all its machines mount at the same path."
    )
    pins.write_text("pytest==0.1\n")
    assert engine.machine_fault([seen], pins).endswith(
        f": pytest is {pytest.__version__}, but this commit needs 0.1. Install the versions in its numerics.lock."
    )


@pytest.mark.parametrize(("later", "printed"), [("1", ""), ("", "There is nothing to send")])
def test_a_machine_of_a_cluster_leaves_the_database_of_the_project_to_the_driver(project, later, printed):
    command, env = [sys.executable, "-m", "bukva.tracking.sync"], os.environ | {LATER: later}
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(printed)
    assert bool(done.stdout) == bool(printed)


def test_trials_on_other_machines_log_where_and_as_whom_the_driver_does(monkeypatch):
    monkeypatch.setattr(
        os, "environ", {"HOME": "/root", "MLFLOW_EXPERIMENT_NAME": "mine", "MLFLOW_TRACKING_USERNAME": ""}
    )
    assert engine.forwarded() == {"MLFLOW_EXPERIMENT_NAME": "mine", LATER: "1"}
    server = {f"MLFLOW_{name}": "x" for name in ("TRACKING_URI", "TRACKING_TOKEN", "EXPERIMENT_ID", "WORKSPACE")}
    os.environ |= server
    assert engine.forwarded() == {"MLFLOW_EXPERIMENT_NAME": "mine", **server}


def test_a_changed_file_is_one_sentence(project):
    (project / "params.yaml").write_text("")
    with pytest.raises(BukvaError, match=r"params\.yaml differs from the last commit"):
        commands._sweep("tries", [], "")


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr(engine, "ANSWER_SECONDS", 0.1)
    with pytest.raises(BukvaError, match=r"No Ray cluster answers at 127\.0\.0\.1:1, or its token differs"):
        engine._check_head("127.0.0.1:1")


# ---- the table of trials


def trial(name, status, assignment="", error=None, **last):
    """A trial as Ray Tune describes it."""
    config = {"trial": {"name": name, "assignments": [assignment] if assignment else []}}
    return SimpleNamespace(config=config, status=status, last_result=last, get_error=lambda: error)


TRIALS = [
    trial("a-1", "RUNNING", "download.extensions=[.py]", val=2.5, step=10, hostname="here", time_total_s=8),
    trial("a-2", "ERROR", "model.n_head=7", "Traceback:\n  run()\nBukvaError: n_head must divide it.\n", step=0),
    trial("a-3", "TERMINATED", val=2.25, finished=True),
    trial("a-4", "TERMINATED", val=3.0),
    trial("a-5", "PENDING"),
]


@pytest.fixture
def driver(project):
    """Another process that holds the lock of sweep a, as its driver does."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


def printed(name=None):
    screen = Console(width=200, markup=False)
    with screen.capture() as captured:
        screen.print(engine.table_of(name))
    return captured.get()


def test_a_trial_is_running_while_its_driver_lives_and_interrupted_when_that_was_killed(driver, monkeypatch):
    engine.Reporter("a").report(TRIALS, False)
    assert printed().startswith("1 running, 1 failed, 1 finished, 1 stopped, 1 waiting")
    assert "download.extensions=[.py]" in printed()  # no markup of rich
    assert "a-2 model.n_head=7 failed 0 n_head must divide it." in " ".join(printed().split())
    monkeypatch.setattr(engine, "LOCK_SECONDS", 0.1)
    with pytest.raises(
        BukvaError, match=r"a: another process is running this sweep\. To see its trials, run `bukva sweep status a`"
    ):
        engine._fit("a", None)
    driver.kill()
    driver.wait()
    assert printed().startswith("1 failed, 1 interrupted, 1 finished, 1 stopped, 1 waiting")


def test_a_line_is_printed_when_the_state_of_a_trial_changes(project, capsys):
    reporter = engine.Reporter("a")
    reporter.report(TRIALS, False)
    reporter.report(TRIALS, True)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "a-1: running 2.500", "a-2: failed n_head must divide it.", "a-3: finished 2.250", "a-4: stopped 3.000",
        "a-1: interrupted 2.500",
    ]  # fmt: skip


def test_the_last_sweep_is_shown_and_an_unknown_one_is_a_sentence(project):
    with pytest.raises(BukvaError, match="This project has no sweep yet"):
        engine.table_of()
    engine.Reporter("a").report(TRIALS[2:], False)
    assert printed() == printed("a")
    with pytest.raises(BukvaError, match=r"No sweep is named other\. Existing sweeps: a\."):
        engine.table_of("other")
