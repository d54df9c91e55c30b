"""README from top to bottom as printed: a fresh clone, its own environment, and numerics that are not ours.

Takes some ten minutes and 3 GB of disk.
"""

import os
import re
import signal
import subprocess
import time

import pytest
import requests
from imports import ROOT
from readme import steps, walk
from ruamel.yaml import YAML

pytestmark = pytest.mark.nightly

NOT_HERE = {
    "git clone": "the fixture does it",
    "make test": "this test would be part of it; make check comes last instead",
    "dvc exp run -S download.corpus=url": "an address to fill in",
}
NOT_INHERITED = "DVC_", "MLFLOW_", "BUKVA_", "PYTHON", "VIRTUAL_ENV"
TEXT = "The sea was quiet, and the boat went slowly along the shore while the rain fell on the {} house.\n"
SECONDS = 120


@pytest.fixture
def clone(tmp_path):
    """A clone whose commit asks for float32, as another processor would choose, and has a text of its user."""
    folder = tmp_path / "bukva"
    subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
    yaml, file = YAML(), folder / "params.yaml"
    params = yaml.load(file)
    params["compute"]["precision"] = "fp32"
    yaml.dump(params, file)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "-qam", "another machine"], cwd=folder, check=True)
    books = folder / "path/to/your/books"
    books.mkdir(parents=True)
    words = ("old", "white", "empty", "last", "small", "stone", "dark")
    (books / "sea.txt").write_text("".join(TEXT.format(words[i * i % 7] + str(i)) for i in range(300)))
    return folder


def test_readme_works_as_printed(clone, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    env = kept | {"DVC_SITE_CACHE_DIR": str(tmp_path / "site-cache"), "GIT_CONFIG_GLOBAL": "/dev/null"}
    ran = []

    def run(command):
        ran.append(command)
        active = ". .venv/bin/activate && " if ". .venv/bin/activate" in ran else ""
        start = serve if command == "bukva ui" else finish
        return start(["bash", "-c", active + command], clone, env)

    walk([step for step in steps() if not step.command.startswith(tuple(NOT_HERE))], run)
    assert "make repro" in ran
    run("dvc exp apply baseline")
    assert "up to date" in run("dvc repro")
    run("make check")


def finish(command, folder, env):
    """Run a command to its end; returns what it printed."""
    done = subprocess.run(
        command, cwd=folder, env=env, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[-1]} exited with {done.returncode}:\n{done.stdout}"
    return done.stdout


def serve(command, folder, env):
    """Start a server, ask for its first page, and end it as Ctrl-C does; returns the page."""
    log = folder.parent / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=out, start_new_session=True)
    deadline = time.monotonic() + SECONDS
    while not (address := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    page = requests.get(address[0], timeout=SECONDS)
    os.killpg(process.pid, signal.SIGINT)
    process.wait(SECONDS)
    assert page.status_code == 200, page.text
    assert "baseline" in page.text
    return page.text
