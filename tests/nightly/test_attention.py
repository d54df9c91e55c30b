"""notebooks/attention.ipynb: every check in it holds, and each of its questions has a picture."""

import dataclasses

import cells
import numpy as np
import pytest
import tiny

from bukva.models.folder import save_model
from bukva.project.stages import paths, trained_models
from bukva.training.run import run_training, start
from tests.support.imports import SHIPPED

pytestmark = pytest.mark.nightly

CODE = cells.of(cells.ATTENTION, "code")
PICTURES = 7  # weights before and after training, heads, scale, worth, context, leak


def test_the_notebook_runs_on_a_trained_gpt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(SHIPPED.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / paths()["split"]).mkdir(parents=True)
    for split, ids in tiny.splits().items():
        np.save(tmp_path / paths()["split"] / f"{split}.npy", ids)
    shape = dataclasses.replace(tiny.SHAPE, n_layer=2, n_head=2)
    task = tiny.task(shape)
    state = start(task)
    initial = {name: tensor.clone() for name, tensor in state.model.state_dict().items()}
    run_training(task, state)
    best = state.model.state_dict()
    save_model(trained_models()["gpt"].folder, shape, tiny.TOKENIZER, {"initial": initial, "best": best})
    shown = [output for outputs in cells.run(CODE, N_WINDOWS=4, LEAK_STEPS=3) for output in outputs]
    assert sum("image/png" in output.get("data", {}) for output in shown) == PICTURES


def test_the_notebook_is_stored_without_outputs():
    assert not any(cell["outputs"] or cell["execution_count"] for cell in CODE)
