"""Ray on this machine opens no port to others, and what a sweep lacks is said before it starts."""

import os
import socket
import subprocess
import sys

import pytest

from bukva.core.errors import BukvaError
from bukva.sweep import commands, engine
from bukva.tracking.sync import LATER

pytest.importorskip("ray")

LISTENING = """
import psutil
from bukva.sweep.engine import ray_for
with ray_for("", 1, None) as resources:
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = [each.laddr.ip for process in processes for each in process.net_connections() if each.status == "LISTEN"]
    print(len(found), *{ip.removeprefix("::ffff:") for ip in found}, resources["cpu"])
"""


@pytest.mark.slow
def test_no_port_of_ray_is_open_to_other_machines():
    printed = subprocess.run([sys.executable, "-c", LISTENING], capture_output=True, text=True, check=True).stdout
    count, *addresses, cores = printed.split()
    assert int(count) > 3
    assert (addresses, cores) == (["127.0.0.1"], "1")


def test_a_machine_without_shared_storage_is_one_sentence(tmp_path):
    seen = tmp_path / "probe"
    seen.touch()
    pins = tmp_path / "numerics.lock"
    assert engine.machine_fault([seen], pins) == ""
    assert engine.machine_fault([seen, tmp_path / "away" / "probe"], pins) == (
        f"{socket.gethostname()} does not see this project's folder {tmp_path / 'away'}. A cluster needs shared "
        "storage: clone the project into a folder that all its machines mount at the same path."
    )


def test_a_machine_with_other_packages_is_one_sentence(tmp_path):
    pins = tmp_path / "numerics.lock"
    pins.write_text("pytest==0.1\n")
    assert engine.machine_fault([], pins).endswith(
        f": pytest is {pytest.__version__}, but this commit needs 0.1. Install the versions in its numerics.lock."
    )


@pytest.mark.parametrize(("later", "printed"), [("1", ""), ("", "There is nothing to send")])
def test_a_machine_of_a_cluster_leaves_the_database_of_the_project_to_the_driver(project, later, printed):
    command, env = [sys.executable, "-m", "bukva.tracking.sync"], os.environ | {LATER: later}
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(printed)
    assert bool(done.stdout) == bool(printed)


def test_a_changed_file_is_one_sentence(project):
    (project / "params.yaml").write_text("")
    with pytest.raises(BukvaError, match=r"params\.yaml differs from the last commit"):
        commands._sweep("tries", [], "")


def test_a_cluster_that_does_not_answer_is_one_sentence(monkeypatch):
    monkeypatch.setattr(engine, "ANSWER_SECONDS", 0.1)
    with pytest.raises(BukvaError, match=r"No Ray cluster answers at 127\.0\.0\.1:1, or its token differs"):
        engine._check_head("127.0.0.1:1")
