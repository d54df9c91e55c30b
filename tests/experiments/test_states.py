"""Experiments without a result: queued, running, interrupted, failed."""

import json
import os
import signal
import subprocess

import pytest

from bukva.base.errors import BukvaError
from bukva.experiments.revisions import resolve
from bukva.experiments.states import State, states
from chaos.running import wait_until

pytestmark = pytest.mark.slow

FAILED = "stage train-gpt: params.yaml, model.n_layer: 13 is unlucky"


def kinds():
    return {state.name: state.kind for state in states()}


def sentence(name):
    with pytest.raises(BukvaError) as error:
        resolve([name])
    return str(error.value)


def written_by_dvc(project, folder, name, pid=None, root="."):
    """What DVC keeps of an execution that runs."""
    root = project.folder / root
    info = {"root_dir": str(root), "location": "tempdir", "name": name, "baseline_rev": "1", "status": 2}
    folder = project.folder / ".dvc/tmp/exps" / folder
    folder.mkdir(parents=True)
    if folder.name == "workspace":
        info["location"] = "workspace"
        if pid:
            (folder / "workspace.json").write_text(json.dumps({"pid": pid}), encoding="utf-8")
    file = folder / f"{folder.name}.run"
    file.write_text(json.dumps(info), encoding="utf-8")
    for path in (file, root):
        os.utime(path, (1000, 1000))  # long ago
    return file


def test_a_failure_has_its_stage_and_its_reason_until_it_is_repaired(project):
    (failed,) = states()
    baseline = project.run("git", "rev-parse", "HEAD").strip()
    assert failed == State("bad", "failed", failed.commit, baseline, FAILED)
    project.run("git", "update-ref", f"refs/exps/{baseline[:2]}/{baseline[2:]}/bad", baseline)  # run again, and done
    assert states() == []


def test_an_execution_runs_as_long_as_a_process_is_in_its_folder(project):
    (project.folder / "tmp").mkdir()
    file = written_by_dvc(project, f"standalone/run/{'1' * 40}", "beside", root="tmp")
    with subprocess.Popen(["sleep", "60"], cwd=project.folder / "tmp") as process:
        assert kinds()["beside"] == "running"
        assert sentence("beside") == "beside: has no result yet; wait for its end."
        process.kill()
    assert kinds()["beside"] == "interrupted"
    assert sentence("beside") == "beside: was interrupted and has no result; run it again."
    os.utime(file)  # DVC writes between its stages, from another folder
    assert kinds()["beside"] == "running"


@pytest.mark.parametrize(("pid", "kind"), [(os.getpid(), "running"), (2**22 + 1, "interrupted"), (None, "interrupted")])
def test_an_experiment_in_the_checkout_runs_as_long_as_its_process(project, pid, kind):
    written_by_dvc(project, "run/workspace", "here", pid)
    assert kinds()["here"] == kind


@pytest.mark.nightly
def test_experiments_have_the_state_that_dvc_shows(project):
    """One experiment of the queue and two beside it wait in their training; a fourth waits in the queue."""
    slow = ["-S", "model.n_layer=11"]
    for name, seed in (("slow", 1), ("next", 2)):
        project.run("dvc", "exp", "run", "--queue", "-n", name, *slow, "-S", f"train_gpt.seed={seed}")
    project.start("dvc", "queue", "start").wait()  # whose workers keep its output open
    beside, killed = (
        project.start("dvc", "exp", "run", "--temp", "-n", name, *slow, "-S", f"train_gpt.seed={seed}")
        for name, seed in (("beside", 3), ("killed", 4))
    )
    wait_until(lambda: len(project.processes("train_gpt")) >= 3)
    shown = {
        experiment["name"]: (experiment["executor"] or {}).get("state")
        for commit in json.loads(project.run("dvc", "exp", "show", "--json"))
        for experiment in commit.get("experiments") or []
    }
    expected = {"slow": "running", "beside": "running", "killed": "running", "next": "queued", "bad": "failed"}
    assert kinds() == expected
    assert {name: state for name, state in shown.items() if name in expected} == expected
    assert sentence("next") == "next: has no result yet; start the queue: `dvc queue start`."
    os.killpg(killed.process.pid, signal.SIGKILL)
    killed.wait()
    wait_until(lambda: kinds()["killed"] != "running")  # until its last file is not fresh any more
    assert kinds() == expected | {"killed": "interrupted"}
    (project.folder / "go").touch()
    assert beside.wait() == 0
    wait_until(lambda: kinds() == {"bad": "failed", "killed": "interrupted"})
    assert {"slow", "next", "beside"} <= set(project.run("dvc", "exp", "list", "--name-only").split())
    project.wait_for_background()
