"""The checks in the notebooks hold. A run of the lesson gives its outputs; attention.ipynb has a picture a question."""

import ast
import dataclasses
import importlib.util
import re
import shutil
import sys

import cells
import numpy as np
import pytest
import tiny

from bukva.models.folder import save_model
from bukva.project.stages import paths, trained_models
from bukva.training.run import start
from tests.support.imports import SHIPPED

LESSON, ATTENTION = (cells.of(notebook, "code") for notebook in (cells.LESSON, cells.ATTENTION))
PICTURES = 7  # weights before and after training, heads, scale, worth, context, leak
FRACTION = re.compile(r"-?\d+\.\d*")  # what may differ in its last digit on another processor


def printed(outputs):
    return "".join(line for output in outputs for line in output.get("text", []))


def kinds(outputs):
    return [(output["output_type"], *output.get("data", {})) for output in outputs]


@pytest.mark.slow
def test_the_lesson_runs_and_shows_the_outputs_of_a_run(monkeypatch):
    """With few updates, so what the trained models print is another text; the cells that print it have a tag."""
    monkeypatch.chdir(cells.FOLDER)
    monkeypatch.setattr(sys, "path", sys.path[:])  # the lesson adds to it
    for cell, outputs in zip(LESSON, cells.run(LESSON, N_STEPS=3), strict=True):
        assert kinds(outputs) == kinds(cell["outputs"])
        if "trained" not in cell["metadata"].get("tags", []):
            now, stored = printed(outputs), printed(cell["outputs"])
            assert FRACTION.sub("0.0", now) == FRACTION.sub("0.0", stored)
            numbers = [[float(number) for number in FRACTION.findall(text)] for text in (now, stored)]
            assert numbers[0] == pytest.approx(numbers[1], rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("notebook", sorted(cells.FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_what_a_notebook_imports_exists(notebook):
    trees = [ast.parse(cells.source(cell)) for cell in cells.of(notebook, "code")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imports
    for module, name in ((node.module, alias.name) for node in imports for alias in node.names):
        assert hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")


@pytest.mark.nightly
def test_the_notebook_of_attention_runs_on_a_trained_gpt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(SHIPPED, tmp_path)
    (tmp_path / paths()["split"]).mkdir(parents=True)
    for split, ids in tiny.splits().items():
        np.save(tmp_path / paths()["split"] / f"{split}.npy", ids)
    shape = dataclasses.replace(tiny.SHAPE, n_layer=2, n_head=2)
    states = {"initial": start(tiny.task(shape)), "best": tiny.run(tiny.task(shape))[0]}
    weights = {name: state.model.state_dict() for name, state in states.items()}
    save_model(trained_models()["gpt"].folder, shape, tiny.TOKENIZER, weights)
    shown = [output for outputs in cells.run(ATTENTION, N_WINDOWS=4, LEAK_STEPS=3) for output in outputs]
    assert sum("image/png" in output.get("data", {}) for output in shown) == PICTURES


def test_the_notebook_of_attention_is_stored_without_outputs():
    assert not any(cell["outputs"] or cell["execution_count"] for cell in ATTENTION)
