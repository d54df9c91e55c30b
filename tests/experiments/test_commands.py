"""bukva compare, bukva experiments and bukva seeds on a project that DVC ran, as processes of their own."""

import json
import os
import subprocess
import sys

import pytest
from imports import ROOT

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
    done = bukva("compare", "main", "two-heads")
    assert done.returncode == 0, done.stderr
    assert "On this test text, model two-heads and the mean of 2 models main " in done.stdout
    assert "settings two-heads against main" in done.stdout
    assert "model.n_head" in done.stdout
    assert done.stderr == "Looks at scores on this test text so far: 1\n"
    assert "so far: 2" in bukva("compare", "main", "two-heads", "--json").stderr
    assert bukva("compare", "main", "two-heads", "--split", "val").stderr == ""


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
        (["compare", "main", "s1338", "--split", "dev"], "main: has no split dev; use --split val or test."),
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
