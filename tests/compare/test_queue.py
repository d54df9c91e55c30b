"""Tests of experiments without a result, in DVC's queue or outside it, and of `bukva seeds`, which queues more."""

import pytest

from bukva.compare.seeds import DECIDE_BEFORE, more_seeds
from bukva.core.errors import BukvaError
from bukva.project.baseline import undo_command
from bukva.project.revisions import (
    Unfinished,
    _failed,
    experiment_ref,
    free_name,
    resolve,
    unfinished,
    why_no_snapshots,
)

pytestmark = pytest.mark.slow

START = "To start the queue: `dvc queue start`"
ENOUGH = "These settings already have 2 seeds, so no experiment was queued."
COMMITTED = "Settings: as in the last commit"
FAILED = "failed: stage train-gpt: params.yaml, model.n_layer: 13 is unlucky"


def test_a_failure_has_its_stage_and_its_reason_until_it_is_repaired(project):
    (failed,) = unfinished()
    baseline = project.run("git", "rev-parse", "HEAD").strip()
    assert failed == Unfinished("bad", failed.commit, FAILED)
    # now another experiment has its name, and then it looks as if it was run again and finished
    project.run("git", "update-ref", experiment_ref("f" * 40, "bad"), baseline)
    assert [(each.name, each.dvc_name) for each in unfinished()] == [(f"bad@{baseline[:7]}", "bad")]
    assert free_name("bad") == "bad-2"
    project.run("git", "update-ref", experiment_ref(baseline, "bad"), baseline)
    assert unfinished() == []


def test_an_experiment_whose_process_has_ended_was_interrupted(project):
    for result in (project.folder / ".dvc/tmp/exps/celery/result").glob("celery-task-meta-*"):
        result.unlink()  # DVC now takes both finished experiments and the failed one for running
    assert {state.kind for state in unfinished()} == {"interrupted"}
    with pytest.raises(BukvaError, match=r"bad has no result \(interrupted\)\. Run it again"):
        resolve("bad")


def other_side(n, checkout="dvc exp apply EXPERIMENT"):
    return f"To add seeds to the experiment that you compare with: `{checkout} && bukva seeds {n}`"


def queued(n):
    """Return the lines about seeds that `bukva seeds` prints for the settings of the last commit."""
    first, *lines, last = more_seeds(n, "gpt")
    assert (first, last) == (COMMITTED, other_side(n))
    return lines


def test_the_seeds_that_exist_are_kept_and_the_missing_ones_are_queued_once(project):
    before = project.outputs()
    name = "gpt-s1339"
    known = ["seed 1337: HEAD", "seed 1338: experiment s1338"]
    assert queued(2) == [*known, ENOUGH]
    assert queued(3) == [*known, f"seed 1339: queued as {name}", START]
    assert queued(3) == [*known, f"seed 1339: queued {name}", START]
    (waiting,) = (state for state in unfinished() if state.kind == "queued")
    assert waiting.name == name
    assert project.outputs() == before
    assert "seed: 1339" in project.run("git", "diff", waiting.commit, "-U0", "-R", "--", "params.yaml")
    more = [f"seed 1339: queued {name}", "seed 1340: queued as gpt-s1340", DECIDE_BEFORE, START]
    assert queued(4) == [*known, *more]  # the known seeds were already enough for a verdict


def test_a_configuration_that_nobody_ran_begins_with_the_seed_of_its_file(project):
    project.set({"model": {"n_layer": 3}, "train_gpt": {"seed": 7}})
    changed = f"{COMMITTED}, with -S model.n_layer=3"
    lines = more_seeds(2, "gpt")
    assert [next(lines), next(lines)] == [changed, "seed 7: queued as gpt-s7"]
    project.set({"train_gpt": {"seed": 8}})  # the next seeds count from here
    lines = ["seed 7: queued gpt-s7", "seed 8: queued as gpt-s8", START]
    assert list(more_seeds(2, "gpt")) == [changed, *lines, other_side(2, undo_command())]


def test_seeds_that_are_trained_at_once_need_no_queue(project, bukva):
    _, *lines, last = bukva("seeds", "3", "--parallel", "1").stdout.splitlines()
    log = "  training seed 1339 as gpt-s1339 (output: .bukva/sweeps/logs/gpt-s1339.log)"
    assert lines == ["seed 1337: HEAD", "seed 1338: experiment s1338", log, "seed 1339: trained as gpt-s1339"]
    assert last == other_side(3)
    assert queued(3)[2] == "seed 1339: experiment gpt-s1339"


def test_where_dvc_cannot_run_snapshots_no_seed_is_queued_and_a_failure_says_why(project, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("bukva.project.revisions.project_root", lambda: "/Книги")
        why = why_no_snapshots()
        assert why.startswith("/Книги: DVC's queue and `dvc exp run --temp` fail in a path with К г и н. Rename")
        assert _failed(None) == f"failed: {why.removesuffix('.')}"
    monkeypatch.setattr("bukva.project.commands.why_no_snapshots", lambda: why)
    with pytest.raises(BukvaError) as error:
        list(more_seeds(3, "gpt"))
    assert str(error.value) == why


def test_edited_code_of_the_training_is_another_configuration_and_of_evaluate_alone_is_not(project):
    project.edit("score.py", "32", "31")
    assert queued(2)[-1] == ENOUGH
    project.edit("code/one.py", "1", "2")
    lines = more_seeds(2, "gpt")
    assert [next(lines), next(lines)] == [COMMITTED, "seed 1337: queued as gpt-s1337"]
    project.run("git", "checkout", "-q", "code")
    assert queued(2)[0] == "seed 1337: HEAD"


def test_settings_that_cannot_run_and_code_that_git_does_not_know_are_not_queued(project):
    (project.folder / "code/three.py").touch()
    with pytest.raises(BukvaError, match=r"code/three\.py is not tracked by git"):
        queued(3)
    project.set({"model": {"n_head": 3}})  # as after a failed experiment
    with pytest.raises(BukvaError, match=r"^params.yaml, model.n_head: 3 does not divide `n_embd`, which is 128. Use"):
        queued(3)
    assert all(state.kind != "queued" for state in unfinished())
