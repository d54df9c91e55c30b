"""Calibration: bins and error are those of a plain loop, and a model that knows its probabilities has none."""

import numpy as np
import pytest
import torch

from bukva.scoring.calibration import BINS, Calibration

V = 7


def predictions(n, seed, spread=2.0):
    return torch.randn(n, V, generator=torch.Generator().manual_seed(seed)) * spread


def test_bins_and_error_are_those_of_a_loop_over_predictions_in_any_batches():
    logits, followed = predictions(997, seed=1), torch.randint(V, (997,), generator=torch.Generator().manual_seed(2))
    found = Calibration()
    for part in (slice(0, 101), slice(101, 997)):
        found(logits[part], followed[part])
    bins = {}
    for row, answer in zip(logits.softmax(dim=-1).tolist(), followed.tolist(), strict=True):
        sure = max(row)
        bins.setdefault(min(int(sure * BINS), BINS - 1), []).append((sure, row.index(sure) == answer))
    expected = [
        (len(bins[i]), np.mean([s for s, _ in bins[i]]), np.mean([hit for _, hit in bins[i]])) for i in sorted(bins)
    ]
    assert [(each["predictions"], each["confidence"], each["right"]) for each in found.to_json()["bins"]] == [
        (n, pytest.approx(sure), pytest.approx(right)) for n, sure, right in expected
    ]
    assert found.error == pytest.approx(sum(n * abs(sure - right) for n, sure, right in expected) / 997)


def test_who_draws_from_its_own_probabilities_is_calibrated_and_who_is_too_sure_is_not():
    logits = predictions(40_009, seed=3)
    followed = torch.multinomial(logits.softmax(dim=-1), 1, generator=torch.Generator().manual_seed(4))[:, 0]
    honest, boastful = Calibration(), Calibration()
    honest(logits, followed)
    boastful(3 * logits, followed)
    assert honest.error < 0.01
    assert boastful.error > 0.1
    assert all(each["confidence"] > each["right"] for each in boastful.to_json()["bins"][-3:])
    certain = Calibration()
    certain(torch.tensor([[0.0, 1000.0], [1000.0, 0.0]]), torch.tensor([1, 1]))
    assert certain.to_json() == {"error": 0.5, "bins": [{"predictions": 2, "confidence": 1.0, "right": 0.5}]}
