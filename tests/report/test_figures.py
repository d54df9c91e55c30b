"""The figures of the losses and of the comparison."""

import numpy as np
import pandas as pd
import pytest

from bukva.pipeline.stages import TrainedModel
from bukva.report.figures import comparison, losses
from bukva.report.rows import Row

pytestmark = pytest.mark.slow

CURVE = pd.DataFrame({"step": [0, 5], "train_nats_per_char": [None, 2.5], "val_nats_per_char": [4.0, 2.6]})


def models(folder, *names):
    found = [TrainedModel(f"train-{name}", name, name.upper(), folder / name, folder / f"{name}.csv") for name in names]
    for model in found:
        CURVE.to_csv(model.curve, index=False)
    return found


def scores(*names, test=True):
    scores = {"val": {"bits_per_char": 3.0}} | ({"test": {"bits_per_char": 3.1}} if test else {})
    return {"baselines": {"val": {"unigram": 4.8, "bigram_exact": 3.7}}, **dict.fromkeys(names, scores)}


@pytest.mark.parametrize("names", [["gpt"], [*"abcdefg", "gpt"]])
def test_the_losses_of_any_number_of_models_are_drawn_to_the_same_bytes(tmp_path, names):
    for file in ("a.png", "b.png"):
        losses(models(tmp_path, *names), scores(*names, test=len(names) > 1), tmp_path / file)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_models_and_baselines_are_drawn_on_one_axis_to_the_same_bytes(tmp_path):
    rows = [
        Row("uniform", "counted", "every character equally likely", {"val": 6.0, "test": 6.0}),
        Row("ppmd", "compressor", "PPMd", {"val": 2.5}),  # no figure on test
        Row("gpt", "learned", "GPT", {"val": 2.5, "test": 2.25}),
    ]
    chars = np.full(12, 101)
    nats = {"gpt": {"test": np.random.default_rng(1).random(chars.sum()).astype(np.float32)}}
    for file in ("a.png", "b.png"):
        comparison(rows, nats, chars, tmp_path / file)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
