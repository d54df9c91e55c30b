"""The forecast, against one forward pass per character."""

import numpy as np
import pytest
import torch
from studies.small import CHARS, TOKENIZER, gpt

from bukva.studies.attention_study import TEMPERATURES, forecast


@torch.inference_mode()
def test_the_forecast_is_the_distribution_before_each_character():
    model = gpt()
    found = forecast(model, TOKENIZER, "аб в")
    assert found["prompt"] == "а"  # a block of 11 has room for one character and ten new ones
    written = "".join(char["char"] for char in found["chars"])
    assert len(written) == 10
    for i, char in enumerate(found["chars"]):
        logits = model(torch.from_numpy(TOKENIZER.encode(found["prompt"] + written[:i]).astype(np.int64))[None])[0, -1]
        probabilities = logits.softmax(-1)
        order = probabilities.argsort(descending=True)[:5]
        assert [name for name, _ in char["top"]] == [CHARS[int(j)] for j in order]
        assert [share for _, share in char["top"]] == pytest.approx(probabilities[order].tolist(), abs=1e-5)
        at_one = char["entropy"][TEMPERATURES.index(1.0)]
        assert at_one == pytest.approx(float(-(probabilities * probabilities.log2()).sum()), abs=1e-4)
        assert char["entropy"] == sorted(char["entropy"])  # higher temperature, higher entropy
