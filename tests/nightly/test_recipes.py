"""Each recipe as a user runs it, in a clone: its scores are those of the table in README."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from imports import ROOT

TOLERANCE = 0.02  # bits: twice what another seed or another processor changes (reports/noise_floor.json)
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))


def table():
    """Recipe -> the cells of its row in README: what, time, val and test."""
    rows = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n| recipe |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows.splitlines()[2:]]
    return {name: rest for name, *rest in cells}


def test_readme_has_a_row_for_each_recipe():
    assert sorted(table()) == RECIPES
    assert all(re.fullmatch(r"(\d\.\d{3})?", cell) for row in table().values() for cell in row[2:])


@pytest.mark.nightly
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_reaches_the_scores_of_readme(name, tmp_path):
    if name in ("ruslit", "gpu") and "BUKVA_MIRROR" not in os.environ:
        pytest.skip("BUKVA_MIRROR names no mirror, so RusLit would be downloaded")
    if not all(table()[name][2:]):
        pytest.skip("README has no scores of it yet")
    if name == "gpu" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    expected = dict(zip(("val", "test"), map(float, table()[name][2:]), strict=True))
    project = tmp_path / "bukva"
    subprocess.run(["git", "clone", "-q", ROOT, project], check=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("DVC_", "MLFLOW_"))}
    env |= {"PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "DVC_SITE_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(f"dvc exp run $(bukva recipe {name})", shell=True, cwd=project, env=env, check=True)
    metrics = json.loads((project / "reports" / "metrics.json").read_text())
    assert {split: metrics["gpt"][split] for split in expected} == pytest.approx(expected, abs=TOLERANCE)
