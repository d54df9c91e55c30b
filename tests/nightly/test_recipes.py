"""Recipe ruslit runs as a user runs it, but trains briefly; `make reference` compares the scores of whole trainings."""

import json
import subprocess

import pytest

from tests.support.imports import ROOT
from tests.support.project import Project

pytestmark = pytest.mark.nightly

SHORT = "-S download.corpus=sample -S train_gpt.n_steps=40 -S train_gpt.eval_every=40 -S compute.threads=1"


def test_recipe_ruslit_is_soon_better_than_its_counts(tmp_path):
    project = Project(tmp_path / "bukva")
    subprocess.run(["git", "clone", "-q", ROOT, project.folder], check=True)
    project.run("bash", "-c", f"dvc exp run $(bukva recipe ruslit) {SHORT}")
    metrics = json.loads(project.read("reports/metrics.json"))
    assert metrics["gpt"]["val"] < metrics["counted"]["val"]
