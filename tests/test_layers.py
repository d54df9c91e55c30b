"""Imports point down, and importing costs nothing."""

import subprocess
import sys

import pytest
from imports import ROOT, belongs, imported, modules, reached

# From the bottom up; modules of one row do not import each other, except within a folder.
LAYERS = [
    ["bukva", "bukva.base.redact", "bukva.base.errors", "bukva.base.units"],
    ["bukva.base.files", "bukva.durability.parent"],
    ["bukva.config.schema"],
    ["bukva.pipeline.dvc"],
    ["bukva.corpus", "bukva.models", "bukva.tracking"],
    ["bukva.training.device"],
    ["bukva.models.folder"],
    ["bukva.scoring.window_rule", "bukva.generation.sampling"],
    ["bukva.training"],
    ["bukva.evaluation", "bukva.planning.budget"],
    ["bukva.report"],
    ["bukva.base.progress", "bukva.stage.cli"],
    ["bukva.__main__"],
    ["stages"],
]
LEVEL = {package: level for level, row in enumerate(LAYERS) for package in row}


def package(name: str) -> str:
    """The entry of LAYERS that a module belongs to."""
    return next(entry for entry in sorted(LEVEL, key=len, reverse=True) if belongs(name, [entry]))


@pytest.mark.parametrize("name", modules())
def test_imports_point_down(name):
    for other in imported(name, while_typing=False) & modules().keys():
        same = package(name) == package(other)
        assert same or LEVEL[package(other)] < LEVEL[package(name)], f"{name} imports {other}"


def test_a_stage_imports_no_other_stage():
    for name in modules():
        assert not [other for other in imported(name) if other.startswith("stages")], name


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("mlflow", ["bukva.tracking"]),
        ("torch", ["bukva.models", "bukva.training.device", "bukva.models.folder", "bukva.scoring.window_rule", "bukva.generation.sampling",
                   "bukva.training", "bukva.planning.budget", "bukva.interpret", "bukva.report",
                   "stages.train_bigram"]),
        ("matplotlib", ["bukva.report"]),
        ("typer", ["bukva.stage.cli", "bukva.__main__", "bukva.tracking", "stages"]),
    ],
)  # fmt: skip
def test_a_library_is_known_in_its_own_place_only(library, homes):
    for name in modules():
        if library in imported(name):
            assert belongs(name, homes), f"{name} imports {library}"


def test_models_know_no_text_no_file_and_no_tracker():
    for name in modules():
        if name.startswith("bukva.models"):
            assert all(other.startswith("bukva.models") for other in reached(name)), name


def test_only_stages_import_tracking():
    for name in modules():
        if not name.startswith(("stages", "bukva.tracking")):
            assert not [other for other in imported(name) if other.startswith("bukva.tracking")], name


@pytest.mark.parametrize("stage", ["download", "clean", "tokenize", "split"])
def test_a_light_stage_loads_nothing_heavy(stage):
    heavy = "torch", "mlflow", "matplotlib"
    program = f"import sys, stages.{stage}; print(*(name for name in {heavy} if name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONPATH": "src"}, capture_output=True, text=True
    )
    assert (run.stdout.strip(), run.stderr) == ("", "")
