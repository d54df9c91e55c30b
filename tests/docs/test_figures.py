"""README is one page, and its figures are those of docs/reference and of the bench."""

import json
import os
import re
import subprocess
from functools import cache

import pytest

from bench.report import Line
from bukva.core.files import read_json
from bukva.core.progress import duration
from bukva.project.lock import read_lock
from bukva.project.stages import stages, trained_models
from bukva.scoring.metrics import METRICS
from bukva.scoring.rows import rows_of
from tests.support.imports import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = ROOT / "docs" / "reference"
SPLITS = "train", "val", "test"
RECIPES = {"gpt": "baseline"}  # the recipe is the default
DATA = [name for name, stage in stages().items() if stage.kind == "data"]


@cache
def recorded():
    return read_json(REFERENCE / "reference.json")


def rows(head):
    """The rows of the table of README that begins with these cells, without their emphasis."""
    lines = README.split(f"| {head}")[1].partition("\n")[2].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 140


@pytest.mark.parametrize("row", rows("model | train | val | test | accuracy"), ids=lambda row: row[0])
def test_a_row_of_scores_is_that_of_the_reference(row):
    label, *shown = row
    [found] = [each for each in rows_of(recorded()["baseline"]["scores"], trained_models()) if each.label == label]
    bits = [f"{found.bits[split]:.3f}" if split in found.bits else "" for split in SPLITS]
    assert shown == [*bits, METRICS["accuracy"].show(found.metrics.get("accuracy"))]


def test_what_the_gpt_is_better_by_is_that_of_the_reference():
    metrics = recorded()["baseline"]["metrics"]
    gained = metrics["counted"]["val"] - metrics["gpt"]["val"]
    assert f"{gained:.3f} bits better than the n-grams" in " ".join(README.split())


def test_readme_has_a_row_for_each_recipe():
    named = {row[0] for row in rows("recipe | what | time | val | test")}
    assert named == {path.stem for path in (ROOT / "recipes").glob("*.yaml")}


@pytest.mark.parametrize("row", rows("recipe | what | time | val | test"), ids=lambda row: row[0])
def test_a_row_of_a_recipe_is_that_of_the_reference_or_names_its_source(row):
    name, what, seconds, *shown = row
    one = recorded().get(RECIPES.get(name, name))
    if one is None:  # it takes too long, or a GPU
        assert "](docs/" in what, "the row does not name its source"
        return
    assert shown == [f"{one['metrics']['gpt'][split]:.3f}" for split in ("val", "test")]
    assert seconds == duration(one["seconds"]["train-gpt"])


@pytest.mark.parametrize("line", ["settings bumpy-vara against baseline", "On this val text, model bumpy-vara"])
def test_the_verdict_is_that_of_the_reference(line):
    (shown,) = (each.strip().removesuffix(" ...") for each in README.splitlines() if line in each and "    " in each)
    said = (REFERENCE / "comparison.txt").read_text(encoding="utf-8").replace("heads", "bumpy-vara")
    assert shown in said


@pytest.mark.parametrize(
    ("what", "name", "state"),
    [("before", "baseline", "untrained"), ("after", "baseline", "trained"), ("English", "english", "trained")],
)
def test_the_samples_are_those_of_the_reference(what, name, state):
    (text,) = re.findall(rf"^    {what}: +(.*?)(?: \.\.\.)?$", README, re.MULTILINE)
    written = [each["read"] + each["written"] for each in recorded()[name]["samples"] if each["state"] == state]
    assert any(text in " ".join(each.split()) for each in written)


@pytest.mark.parametrize("name", ["race", "generation"])
def test_a_factor_of_speed_is_that_of_a_row_of_the_bench(name):
    row = read_json(ROOT / "reports" / "bench.json")[name]
    line = Line(**row["lines"][0])
    low, high = line.interval
    assert f"{line.ratio:.1f} times as fast ({low:.1f} to {high:.1f}; {row['date']})" in " ".join(README.split())


@pytest.mark.skipif("BUKVA_CI" not in os.environ, reason="anybody may commit results; the project itself does not")
def test_the_repository_holds_no_result_of_one_machine():
    assert read_lock(ROOT).keys() == {*DATA}
    ours = {"bench.json", "bench.md", "cleaning.json", "noise_floor.json", "split.json"}
    assert {file.name for file in (ROOT / "reports").rglob("*") if file.is_file()} <= ours


@pytest.mark.skipif("BUKVA_CI" not in os.environ, reason="a clone may have an edited stage; on main, dvc.lock matches")
def test_dvc_lock_has_the_code_of_the_data_stages():
    told = subprocess.run(["dvc", "status", "--json", *DATA], cwd=ROOT, check=True, capture_output=True, text=True)
    changes = [each for changed in json.loads(told.stdout).values() for each in changed if isinstance(each, dict)]
    deps = [dep for change in changes for dep in change.get("changed deps", {}).items()]
    assert [path for path, how in deps if how == "modified"] == [], "dvc repro baselines"
