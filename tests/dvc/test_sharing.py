"""Results travel: a second clone gets what the first has computed, without training."""

import json

import pytest

from chaos.project import Project

pytestmark = pytest.mark.slow

TWO_HEADS = ("-S", "model.n_head=2")


def send(project, **kwargs):
    return project.run("python", "-m", "bukva", "push", PYTHONPATH="src", **kwargs)


def add_remote(project, address):
    project.run("dvc", "remote", "add", "--local", "-d", "team", address)


@pytest.fixture(scope="module")
def shared(copied, tmp_path_factory):
    """A project that has sent its baseline and an experiment to a repository and to a remote, both folders.

    The remote is younger than the experiment, and stands first in .dvc/config, from where `dvc exp apply` removes it.
    """
    root = tmp_path_factory.mktemp("shared")
    copied.reset()
    (root / "remote").mkdir()
    copied.run("git", "init", "-q", "-b", "main", "--bare", str(root / "origin.git"))
    copied.run("git", "remote", "add", "origin", str(root / "origin.git"))
    copied.run("git", "push", "-q", "origin", "main")
    copied.run("dvc", "exp", "run", "-n", "theirs", *TWO_HEADS)
    theirs = copied.outputs()
    copied.run("dvc", "remote", "add", "-d", "team", str(root / "remote"))
    printed = send(copied)
    copied.reset()
    add_remote(copied, str(root / "remote"))
    copied.run("dvc", "exp", "push", "origin", "theirs")
    return copied, root, theirs, printed


@pytest.fixture
def clone(shared, tmp_path):
    project, root, *_ = shared
    project.run("git", "clone", "-q", str(root / "origin.git"), str(tmp_path / "bukva"))
    clone = Project(tmp_path / "bukva")
    add_remote(clone, str(root / "remote"))
    return clone


def test_what_was_sent_is_counted_and_is_sent_once(shared):
    project, _, _, printed = shared
    assert "stage executions" in printed
    assert " 0 objects were new" not in printed
    project.run("dvc", "exp", "apply", "theirs")  # which started before there was a remote
    again = send(project)
    project.reset()
    assert " 0 objects were new" in again
    advice = "`dvc exp apply` removes a remote from .dvc/config; use dvc remote add --local -d NAME ADDRESS."
    assert advice in printed
    assert advice not in again


def test_a_clone_gets_an_experiment_by_its_name_without_running_a_stage(shared, clone):
    clone.run("dvc", "exp", "pull", "origin", "theirs")
    clone.run("dvc", "exp", "apply", "theirs")
    clone.run("dvc", "pull")
    assert clone.outputs() == shared[2]
    assert clone.repro() == []
    clone.run("dvc", "repro", "-sf", "publish", DVC_EXP_NAME="theirs")
    runs = {run["name"]: run for run in clone.mlflow()}
    assert runs["n_head=2 (theirs): train-gpt"]["points"]["val_nats_per_char"] == 3
    whole = runs["n_head=2 (theirs)"]
    assert whole["metrics"]["gpt.test"] > 0
    assert "lineage.json" in whole["artifacts"]


def test_a_clone_that_wants_the_same_restores_it_and_shows_it_in_mlflow(shared, clone):
    clone.run("dvc", "pull", "--run-cache")
    printed = clone.run("dvc", "exp", "run", "--pull", "-n", "mine", *TWO_HEADS)
    assert clone.stages_run(printed) == ["publish"]
    assert clone.outputs() == shared[2]
    clone.sync()
    training = next(run for run in clone.mlflow() if run["name"] == "n_head=2 (mine): train-gpt")
    assert training["tags"]["bukva.restored"] == "true"
    assert training["points"]["val_nats_per_char"] == 3
    whole = next(run for run in clone.mlflow() if run["name"] == "n_head=2 (mine)")
    scores = json.loads(clone.read("reports/metrics.json"))
    assert whole["metrics"]["gpt.test"] == pytest.approx(scores["gpt"]["test"])


@pytest.mark.parametrize(
    ("remote", "sentence"),
    [
        (None, "push: this project has no DVC remote; add one: dvc remote add --local -d NAME ADDRESS.\n"),
        ("http://127.0.0.1:9", "push: DVC cannot send it: run-cache is not supported for http filesystem"),
    ],
)
def test_a_remote_that_cannot_take_it_is_one_sentence(shared, tmp_path, remote, sentence):
    project = shared[0].copy_to(tmp_path / "bukva")
    project.run("dvc", "remote", "remove", "--local", "team")
    if remote:
        add_remote(project, remote)
    printed = send(project, ok=False)
    assert printed.startswith(sentence)
    assert "Traceback" not in printed
