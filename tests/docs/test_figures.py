"""README is one page, and what it shows is what the last run and the bench have written."""

import re
from functools import cache

import pytest
from imports import ROOT

from bench.rows import Line
from bukva.core.files import read_json
from bukva.evaluation.rows import rows_of
from bukva.project.stages import paths, trained_models

README = (ROOT / "README.md").read_text(encoding="utf-8")
SAMPLES = ROOT / paths()["samples"]
SPLITS = "train", "val", "test"


@cache
def report(name):
    return read_json(ROOT / "reports" / name)


def rows(head):
    """The rows of the table of README that begins with these cells, without their emphasis."""
    lines = README.split(f"| {head} |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip().strip("*") for cell in line.strip("|").split("|")] for line in lines]


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("row", rows("model | train | val | test"), ids=lambda row: row[0])
def test_a_row_of_scores_is_that_of_the_last_run(row):
    label, *shown = row
    bits = {each.label: each.bits for each in rows_of(report("scores.json"), trained_models())}
    assert shown == [f"{bits[label][split]:.3f}" if split in bits[label] else "" for split in SPLITS]


def test_what_the_gpt_is_better_by_and_the_scores_of_its_recipe_are_those_of_the_last_run():
    metrics = report("metrics.json")
    gained = metrics["counted"]["val"] - metrics["gpt"]["val"]
    assert f"{gained:.3f} bits better than the n-grams" in " ".join(README.split())
    (recipe,) = (row for row in rows("recipe | what | time | val | test") if row[0] == "gpt")
    assert recipe[-2:] == [f"{metrics['gpt'][split]:.3f}" for split in ("val", "test")]


@pytest.mark.skipif(not SAMPLES.is_file(), reason="DVC's cache has the samples, and git does not")
def test_the_samples_are_those_of_the_last_run():
    written = SAMPLES.read_text(encoding="utf-8")
    shown = re.findall(r"^    (?:before|after): +(.*?)(?: \.\.\.)?$", README, re.MULTILINE)
    assert len(shown) == 2
    for text in shown:
        assert text in written


@pytest.mark.parametrize("row", ["race", "generation"])
def test_a_factor_of_speed_is_that_of_the_bench(row):
    ratio = Line(**report("bench.json")["rows"][row]["lines"][0]).ratio.value
    assert f"{ratio:.1f} times as fast" in " ".join(README.split())
