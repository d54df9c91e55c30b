"""The checks in notebooks/lesson.ipynb hold, a run gives its outputs, and both notebooks find their imports."""

import ast
import importlib.util
import re
import sys

import cells
import pytest

CODE = cells.of(cells.LESSON, "code")
FRACTION = re.compile(r"-?\d+\.\d*")  # what may differ in its last digit on another processor


def printed(outputs):
    """All text of the outputs of a cell."""
    return "".join(line for output in outputs for line in output.get("text", []))


def kinds(outputs):
    """What sorts of outputs a cell has."""
    return [(output["output_type"], *output.get("data", {})) for output in outputs]


@pytest.mark.slow
def test_the_lesson_runs_and_shows_the_outputs_of_a_run(monkeypatch):
    """With few updates, so what the trained models print is another text; the cells that print it have a tag."""
    monkeypatch.chdir(cells.FOLDER)
    monkeypatch.setattr(sys, "path", sys.path[:])  # the lesson adds to it
    for cell, outputs in zip(CODE, cells.run(CODE, N_STEPS=3), strict=True):
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
