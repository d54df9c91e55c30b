"""bukva compare, bukva experiments and bukva seeds on a project that DVC ran, as processes of their own."""

import json
import os
import subprocess
import sys
from typing import get_args

import pytest
from imports import ROOT
from typer.testing import CliRunner

from bukva.cli import comparing
from bukva.cli.app import app
from bukva.statistics.estimate import Verdict

pytestmark = pytest.mark.slow


@pytest.fixture
def bukva(project):
    """A function that runs a command of bukva in a copy of the fake project."""

    def run(*command):
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, "-m", "bukva", *command], cwd=project.folder, env=env, capture_output=True, text=True
        )

    run.folder = project.folder
    return run


def test_compare_prints_both_lines_and_counts_the_look_at_test(bukva):
    done = bukva("compare", "main", "two-heads", "--test")
    assert done.returncode == 0, done.stderr
    assert "On this test text, model two-heads and the mean of 2 models main " in done.stdout
    assert "settings two-heads against main" in done.stdout
    assert "model.n_head" in done.stdout
    assert done.stderr == "Looks at scores on this test text so far: 1\n"
    assert "so far: 2" in bukva("compare", "main", "two-heads", "--test", "--json").stderr
    assert bukva("compare", "main", "two-heads").stderr == ""


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        ("better", 0),
        ("probably better", 0),
        ("worse", 1),
        ("probably worse", 1),
        ("cannot tell", 2),
        ("no difference that matters", 2),
        ("identical", 2),
    ],
)
def test_a_verdict_has_its_exit_status(verdict, status):
    assert verdict in get_args(Verdict)
    assert comparing.STATUS.get(verdict, comparing.CANNOT_TELL) == status


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (("workspace", "two-heads"), 2),
        (("main", "main"), 2),
        (("main", "nobody"), 3),
        (("main",), 3),
        (("main", "s1338", "two-heads"), 3),
        (("main", "s1338", "--jsno"), 3),
    ],
)
def test_with_exit_code_the_status_is_the_verdict_and_a_mistake_is_none(bukva, names, status):
    assert bukva("compare", *names, "--exit-code").returncode == status


def test_with_exit_code_a_bug_is_no_verdict(monkeypatch):
    monkeypatch.setattr(comparing, "_compare", lambda *_: 1 / 0)
    done = CliRunner().invoke(app, ["compare", "a", "b", "--exit-code"])
    assert done.exit_code == 3
    assert "ZeroDivisionError" in done.stderr


def test_compare_prints_json_for_programs_and_leaves_the_checkout_alone(bukva):
    before = subprocess.run(["git", "status", "--porcelain"], cwd=bukva.folder, capture_output=True, text=True).stdout
    (said,) = json.loads(bukva("compare", "workspace", "two-heads", "--json").stdout)
    assert said["changed"] == {"model.n_head": [4, 2]}
    assert said["a"]["name"] == "workspace"
    after = subprocess.run(["git", "status", "--porcelain"], cwd=bukva.folder, capture_output=True, text=True).stdout
    assert after == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["compare", "main"], "compare: one name; use two or more: bukva compare A B"),
        (["compare", "main", "two-haeds"], "two-haeds: no experiment, branch, tag or commit has this name"),
        (["compare", "main", "partial"], "partial: "),
        (["compare", "main", "bad"], "bad: failed, "),
        (["compare", "main", "s1338", "--model", "mlp"], "There is no model mlp; use bigram or gpt."),
        (["compare", "main", "s1338", "--model", "bigram"], "main: has no model bigram; use gpt."),
        (["experiments", "--baseline", "partial"], "partial: "),
        (["experiments", "--model", "mlp"], "There is no model mlp; use bigram or gpt."),
        (["seeds", "1"], "N=1: one seed tells nothing about seeds; use 2 or more."),
        (["seeds", "3", "--model", "mlp"], "There is no model mlp; use bigram or gpt."),
    ],
)
def test_a_mistake_is_one_sentence(bukva, command, message):
    done = bukva(*command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_the_leaderboard_lists_all_hides_test_and_keeps_the_noise_floor(bukva):
    done = bukva("experiments")
    assert done.returncode == 0, done.stderr
    assert "HEAD (2 seeds)" in done.stdout
    assert "two-heads" in done.stdout
    assert "No result (failed: stage train-gpt: " in done.stdout
    assert "so far: 0; bukva experiments --test shows them" in done.stdout
    assert "The noise floor has new seeds; commit reports/noise_floor.json." in done.stderr
    assert bukva("experiments").stderr == ""
    with_test = json.loads(bukva("experiments", "--test", "--json").stdout)
    assert all(len(row["test"]) == len(row["seeds"]) for row in with_test["rows"])
    assert {row["name"] for row in with_test["without_result"]} == {"bad", "partial"}
