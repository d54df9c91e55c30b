"""Imports point down, and importing costs nothing."""

import graphlib
import re
import subprocess
import sys

import pytest

from bukva.project.stages import stages
from tests.support.imports import ROOT, belongs, imported, modules, reached

TABLE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("| package of src/bukva |")[1]
PACKAGES = re.findall(r"^\| ([a-z]+) \|", TABLE.split("\n\n")[0], re.MULTILINE)[::-1]  # from the bottom up
LEVEL = {f"bukva.{name}": level for level, name in enumerate(PACKAGES)}
LEVEL |= {"bukva": 0, "stages": len(PACKAGES), "bukva.__main__": len(PACKAGES)}
SHARED = "stages.stage", "stages.training"  # modules that several stages import
# These find, build and save models, and count n-grams. The rest of bukva.models is architecture: tensors in and out.
NO_ARCHITECTURE = ["bukva.models.folder", "bukva.models.registry", "bukva.models.ngrams"]


def package(name: str) -> str:
    """The entry of LEVEL that a module belongs to."""
    return next(entry for entry in LEVEL if belongs(name, [entry]))


def test_imports_point_down_in_the_table_of_the_architecture_and_a_stage_imports_no_other_stage():
    assert {package(name) for name in modules()} == LEVEL.keys()
    for name in modules():
        for other in imported(name) & modules().keys():
            same = package(name) == package(other) and (package(name) != "stages" or other in SHARED)
            assert same or LEVEL[package(other)] < LEVEL[package(name)], f"{name} imports {other}"


def test_names_in_files_of_higher_packages_are_read_in_these_places_only():
    sources = {name: file.read_text(encoding="utf-8") for name, file in modules().items()}
    assert {
        name: set(read) for name, text in sources.items() if (read := re.findall(r'\bPACKAGE / "(.+?)"', text))
    } == {
        "bukva.core.schema": {"corpus/cleaning/rules", "training/optimizers", "text/tokenizers.py", "models/gpt.py"},
        "bukva.project.stages": {"models/labels.yaml"},
    }
    users = [name for name, text in sources.items() if re.search(r"core\.files import .*\bPACKAGE\b", text)]
    assert users == ["bukva.core.schema", "bukva.project.stages", "bukva.tracking.record"]  # which packs all code


def test_no_modules_import_each_other_in_a_circle():
    imports = {name: imported(name, while_typing=True) & modules().keys() - {name} for name in modules()}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError


@pytest.mark.parametrize(
    ("known", "homes"),
    [
        ("mlflow", ["bukva.tracking", "bukva.serving.pyfunc"]),
        ("torch", ["bukva.core.machine", "bukva.models", "bukva.scoring", "bukva.backends", "bukva.training",
                   "bukva.durability", "bukva.evaluation", "bukva.report.attention", "bukva.serving.writer",
                   "bukva.cli.planning", "stages.train_bigram"]),
        ("altair", ["bukva.report"]),
        ("fastapi", ["bukva.serving.app"]),
        ("scipy", ["bukva.compare.statistics"]),
        ("typer", ["stages.stage", "bukva.cli", "bukva.sweep.commands"]),
        # records have the durations of trainings, and verdicts go there; bukva.load takes registered models
        ("bukva.tracking", ["stages", "bukva.sweep", "bukva.compare.groups", "bukva.report.comparison",
                            "bukva.report.sections", "bukva.serving", "bukva.cli", "bukva.durability"]),
        ("bukva.durability", ["stages", "bukva.sweep", "bukva.cli"]),
    ],
)  # fmt: skip
def test_a_library_or_a_package_is_imported_in_its_own_places_only(known, homes):
    for name in modules():
        found = [other for other in imported(name) if belongs(other, [known])]
        assert not found or belongs(name, [*homes, known]), f"{name} imports {found}"


def test_the_architecture_of_models_imports_nothing_else_of_ours():
    architecture = {
        name for name in modules() if belongs(name, ["bukva.models"]) and not belongs(name, NO_ARCHITECTURE)
    }
    allowed = {"bukva", "bukva.text.ids", "bukva.core.compiled", "bukva.core.errors", "bukva.core.files"}
    counting = {name for name in modules() if belongs(name, ["bukva.models.ngrams"])}
    counting |= reached("bukva.models.ngrams.stored")  # its files
    for module in architecture:
        more = counting if module.startswith("bukva.models.ngram") else set()
        assert reached(module) <= architecture | allowed | more, module


LIGHT = [name for name, stage in stages().items() if stage.kind in ("data", "publish") and name != "baselines"]
HEAVY = "torch", "numba", "mlflow", "dvc", "pandas", "altair"


@pytest.mark.parametrize(
    ("scripts", "heavy"),
    [(LIGHT, []), (["baselines"], ["numba"]), (["train-bigram", "train-gpt", "sample"], ["torch"])],
    ids=["light", "baselines", "torch"],
)
def test_a_stage_imports_only_the_heavy_packages_that_it_always_needs(scripts, heavy):
    names = ", ".join(f"stages.{name.replace('-', '_')}" for name in scripts)
    program = f"import sys, bukva.cli.app, {names}; print(*(name for name in {HEAVY} if name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONPATH": "src"}, capture_output=True, text=True
    )
    assert (run.stdout.split(), run.stderr) == (heavy, "")
