"""Ray on this machine opens no port to others, and what a sweep lacks is said before it starts."""

import subprocess
import sys

import pytest

from bukva.core.errors import BukvaError
from bukva.sweep import commands
from bukva.sweep.origin import run_git
from bukva.sweep.trials import sweeps_root

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


@pytest.mark.parametrize(
    ("address", "storage", "sentence"),
    [
        ("10.0.0.1:6379", "", "`--address` and `--storage` must be used together"),
        ("", "s3://bucket", "`--address` and `--storage` must be used together"),
        ("10.0.0.1:6379", "/tmp", "The machines of a cluster need a DVC remote"),
    ],
)
def test_a_cluster_without_its_places_is_one_sentence_before_anything_starts(project, address, storage, sentence):
    (project / ".dvc" / "config").write_text("")
    with pytest.raises(BukvaError, match=sentence):
        commands._location(commands._sweep("tries", [], address, storage))
    assert not sweeps_root().exists()


def test_a_changed_file_is_one_sentence(project):
    run_git(project, "add", "params.yaml")
    with pytest.raises(BukvaError, match=r"params\.yaml differs from the last commit"):
        commands._sweep("tries", [], "", "")
