"""Calibration: bins and error are those of a plain loop."""

import numpy as np
import pytest
import torch

from bukva.evaluation.scores import BINS, Calibration

V = 7


def test_bins_and_error_are_those_of_a_loop_over_predictions_in_any_batches():
    generator = torch.Generator().manual_seed(1)
    logits, followed = 2 * torch.randn(997, V, generator=generator), torch.randint(V, (997,), generator=generator)
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
    assert found.to_json()["error"] == pytest.approx(sum(n * abs(sure - right) for n, sure, right in expected) / 997)
    certain = Calibration()
    certain(torch.tensor([[0.0, 1000.0], [1000.0, 0.0]]), torch.tensor([1, 1]))
    assert certain.to_json() == {"error": 0.5, "bins": [{"predictions": 2, "confidence": 1.0, "right": 0.5}]}
