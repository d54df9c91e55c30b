"""Tests of `bukva compare`, `experiments` and `verify` in a project with experiments that DVC ran."""

import json
import shutil
from types import SimpleNamespace
from typing import get_args
from urllib.parse import quote

import pytest
from lxml import html
from typer.testing import CliRunner

from bukva.cli.app import app
from bukva.compare.statistics.estimate import Verdict
from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.project.cache import _cache_folder
from bukva.project.revisions import resolve
from bukva.report.page import overview
from bukva.serving.app import Library

FAILED = "stage train-gpt: params.yaml, model.n_layer: 13 is unlucky"


@pytest.mark.slow
def test_compare_prints_both_lines_counts_looks_at_test_and_leaves_the_checkout_alone(bukva, project):
    before = project.run("git", "status", "--porcelain")
    done = bukva("compare", "main", "two-heads", "--test")
    assert done.exit_code == 0, done.output
    assert "On this test text, model two-heads and the mean of 2 models main " in done.stdout
    assert "settings two-heads against main" in done.stdout
    assert done.stderr == (
        "The verdict is not in MLflow, because this checkout has no run of two-heads.\n"
        "Scores on this test text have now been shown once.\n"
    )
    assert "shown 2 times" in bukva("compare", "main", "two-heads", "--test", "--json").stderr
    assert json.loads(bukva("compare", "two-heads", "--json").stdout)[0]["a"]["name"] == "HEAD"  # the baseline
    without = bukva("compare", "workspace", "two-heads", "--json")
    assert without.stderr == ""
    (said,) = json.loads(without.stdout)
    assert (said["changed"], said["a"]["name"]) == ({"model.n_head": [4, 2]}, "workspace")
    assert project.run("git", "status", "--porcelain") == before


def test_with_exit_code_the_status_is_the_verdict_and_a_mistake_or_a_bug_is_none(monkeypatch):
    def status(*arguments):
        return CliRunner().invoke(app, ["compare", *arguments, "--exit-code"]).exit_code

    assert [status("a"), status("a", "b", "c"), status("a", "b", "--jsno")] == [1, 1, 2]
    monkeypatch.setattr("bukva.report.comparison.show_and_save", lambda *_, **__: None)
    monkeypatch.setattr("bukva.compare.comparison.compare", lambda *_: 1 / 0)
    assert status("a", "b") == 1
    expected = {"better": 0, "probably better": 0, "worse": 3, "probably worse": 3}
    assert expected.keys() < {*get_args(Verdict)}
    for verdict in get_args(Verdict):
        found = SimpleNamespace(verdict=SimpleNamespace(verdict=verdict))
        monkeypatch.setattr("bukva.compare.comparison.compare", lambda *_, found=found, **__: [found])
        assert status("a", "b") == expected.get(verdict, 4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_mistake_or_a_project_that_dvc_cannot_read_is_one_sentence(bukva, project):
    def said(*command):
        done = bukva(*command)
        assert (done.exit_code, done.stdout) == (1, "")
        assert isinstance(done.exception, BukvaError)
        assert "\n" not in str(done.exception)
        return str(done.exception)

    assert said("compare", "main", "two-haeds").startswith("two-haeds: no experiment, branch, tag or commit has this")
    assert said("compare", "main", "bad") == f"bad has no result (failed: {FAILED}). Run it again."
    assert said("compare", "main", "s1338", "--model", "bigram") == "main has no model bigram. Use gpt."
    _cache_folder.cache_clear()  # as in a new process
    (project.folder / ".dvc/config").write_text("[core\n", encoding="utf-8")
    assert said("compare", "main", "two-heads").startswith("DVC: config file error")
    shutil.rmtree(project.folder / ".dvc")
    assert "not inside of a DVC repository" in said("compare", "main", "two-heads")


@pytest.mark.slow
def test_the_leaderboard_lists_all_hides_test_and_leaves_the_checkout_alone(bukva, project):
    before = project.run("git", "status", "--porcelain")
    done = bukva("experiments")
    assert done.exit_code == 0, done.output
    assert "To share them: `cp .bukva/noise_floor.json reports/noise_floor.json`. Then commit" in done.stderr
    assert project.run("git", "status", "--porcelain") == before
    for words in (
        "HEAD (2 seeds)",
        "two-heads",
        "Experiments without a result (failed: stage train-gpt: ",
        "have not been shown yet. To show them, run `bukva experiments --test`.",
    ):
        assert words in done.stdout
    assert not any("test" in row for row in json.loads(bukva("experiments", "--json").stdout)["rows"])
    with_test = json.loads(bukva("experiments", "--test", "--json").stdout)
    assert all(len(row["test"]) == len(row["seeds"]) for row in with_test["rows"])
    assert [row["name"] for row in with_test["without_result"]] == ["bad"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_experiments_with_one_name_have_two_names_everywhere(bukva, project):
    old = resolve("s1338")
    project.set({"model": {"n_layer": 9}})
    project.run("dvc", "repro", "-q")
    project.commit("another baseline")
    project.run("dvc", "exp", "run", "--temp", "-q", "-n", "s1338", "-S", "train_gpt.seed=1338")
    new = resolve("s1338")
    first, second = names = [f"s1338@{each.baseline[:7]}" for each in (old, new)]
    assert (new.name, resolve(first).commit) == (second, old.commit)

    said = bukva("experiments").stdout
    assert f"HEAD (2 seeds), also {second}" in said
    board = json.loads(bukva("experiments", "--json").stdout)
    assert {*names} < {name for row in board["rows"] for name in row["experiments"]}
    (compared,) = json.loads(bukva("compare", "s1338", first, "--json").stdout)
    assert (compared["a"]["name"], compared["b"]["name"]) == (second, first)
    assert f"dvc exp apply {old.commit} && bukva seeds" in compared["sentences"][0]
    assert bukva("verify", "s1338").stdout.startswith(second)
    assert str(bukva("judge", "s1338").exception).endswith(f"`bukva judge BASELINE {second}`.")
    assert f"seed 1338: experiment {second}\n" in bukva("seeds", "2").stdout

    page = html.fromstring(overview([], served=True))
    assert {f"/runs/{quote(name)}" for name in names} <= {*page.xpath("//tbody//@href")}
    assert f'"{first}"' in "".join(page.xpath("//script/text()"))
    choices = {choice.key: choice.experiment for choice in Library(read_params().compute).choices()}
    assert choices.items() >= {f"{first}/gpt": first}.items()
