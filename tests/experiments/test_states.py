"""Experiments without a result, while DVC's queue runs for real."""

import json
import os
import shutil
import signal
from dataclasses import dataclass

import pytest
from experiments.conftest import enter

from bukva.base.errors import BukvaError
from bukva.experiments.revisions import resolve
from bukva.experiments.states import State, states
from chaos.running import wait_until

pytestmark = pytest.mark.slow

FAILED = "stage train-gpt: params.yaml, model.n_layer: 13 is unlucky"


@dataclass(frozen=True)
class Seen:
    """What was seen while experiments ran, after some were killed, and when all had ended.

    shown: name -> state, of `dvc exp show`.
    """

    running: list[State]
    shown: dict[str, str]
    sentences: dict[str, str]
    killed: list[State]
    ended: list[State]


@pytest.fixture(scope="module")
def seen(template, tmp_path_factory) -> Seen:
    """One experiment of the queue and two beside it wait in their training; a fourth waits in the queue."""
    project = template.copy_to(tmp_path_factory.mktemp("states") / "bukva")
    slow = ["-S", "model.n_layer=11"]
    with pytest.MonkeyPatch.context() as patch:
        enter(project, patch)
        for name, seed in (("slow", 1), ("next", 2)):
            project.run("dvc", "exp", "run", "--queue", "-n", name, *slow, "-S", f"train_gpt.seed={seed}")
        project.start("dvc", "queue", "start").wait()  # whose workers keep its output open
        beside = [
            project.start("dvc", "exp", "run", "--temp", "-n", name, *slow, "-S", f"train_gpt.seed={seed}")
            for name, seed in (("beside", 3), ("killed", 4))
        ]
        wait_until(lambda: len(project.processes("train_gpt")) >= 3)
        running = states()
        shown = {
            experiment["name"]: (experiment["executor"] or {}).get("state")
            for commit in json.loads(project.run("dvc", "exp", "show", "--json"))
            for experiment in commit.get("experiments") or []
        }
        sentences = {name: sentence(name) for name in ("slow", "next", "killed")}
        os.killpg(beside[1].process.pid, signal.SIGKILL)
        beside[1].wait()
        wait_until(lambda: kinds(states())["killed"] != "running")  # until its last file is not fresh any more
        killed, sentences["killed"] = states(), sentence("killed")
        (project.folder / "go").touch()
        assert beside[0].wait() == 0
        wait_until(lambda: {"slow", "next", "beside"} <= set(project.run("dvc", "exp", "list", "--name-only").split()))
        wait_until(lambda: not any(state.kind in ("queued", "running") for state in states()))
        ended = states()
        project.wait_for_background()
    return Seen(running, shown, sentences, killed, ended)


def sentence(name):
    with pytest.raises(BukvaError) as error:
        resolve([name])
    return str(error.value)


def kinds(found):
    return {state.name: state.kind for state in found}


def test_experiments_have_the_state_that_dvc_shows(seen):
    expected = {"slow": "running", "beside": "running", "killed": "running", "next": "queued", "bad": "failed"}
    assert kinds(seen.running) == expected
    assert {name: state for name, state in seen.shown.items() if name in expected} == expected


def test_an_experiment_whose_process_is_gone_was_interrupted(seen):
    assert kinds(seen.killed) == kinds(seen.running) | {"killed": "interrupted"}


def test_what_has_ended_leaves_the_list(seen):
    assert kinds(seen.ended) == {"bad": "failed", "killed": "interrupted"}


def test_a_failure_has_its_stage_and_its_reason(seen):
    assert {state.reason for state in seen.ended if state.kind == "failed"} == {FAILED}


def test_a_name_without_a_result_is_one_sentence(seen):
    assert seen.sentences == {
        "slow": "slow: has no result yet; wait for its end.",
        "next": "next: has no result yet; start the queue: `dvc queue start`.",
        "killed": "killed: was interrupted and has no result; run it again.",
    }


def test_a_state_has_its_files_and_its_baseline(template, seen):
    baseline = template.run("git", "rev-parse", "HEAD").strip()
    assert {state.baseline for state in seen.running} == {baseline}
    assert len({state.commit for state in seen.running}) == len(seen.running)


def test_a_failed_experiment_that_was_repaired_is_no_failure(project):
    project.edit("fake.py", "layers == 13", "layers == 17")
    project.run("dvc", "exp", "run", "--temp", "-n", "bad", "-S", "model.n_layer=13")
    assert states() == []
    assert resolve(["bad"])[0].commit


@pytest.mark.parametrize(
    ("name", "pid", "expected"),
    [
        ("workspace", "own", "running"),
        ("workspace", 2**22 + 1, "interrupted"),  # more than the highest number of a process
        ("workspace", None, "interrupted"),
        ("0" * 40, None, None),  # DVC leaves it behind when the experiment has ended
    ],
)
def test_an_experiment_in_the_checkout_runs_as_long_as_its_process(project, monkeypatch, name, pid, expected):
    monkeypatch.chdir(project.folder)  # as a user's shell
    enter(project, monkeypatch)
    folder = project.folder / ".dvc/tmp/exps/run" / name
    folder.mkdir(parents=True)
    info = {"root_dir": str(project.folder), "location": "workspace", "name": "here", "baseline_rev": "1", "status": 2}
    (folder / f"{name}.run").write_text(json.dumps(info), encoding="utf-8")
    if pid:
        pid = os.getpid() if pid == "own" else pid
        (folder / f"{name}.json").write_text(json.dumps({"pid": pid}), encoding="utf-8")
    assert kinds(states()).get("here") == expected
    shutil.rmtree(folder)
