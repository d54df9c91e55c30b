"""notebooks/lesson.ipynb: every check in it holds, and the outputs that it shows are those of a run."""

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
