"""The loss without a head, against the score of the model with that head's kernel replaced."""

import math

import numpy as np
import pytest
import torch
from studies.small import TOKENIZER, T, gpt, nh, random_text

from bukva.models.attention import attend_explicit
from bukva.models.window_rule import nats_of
from bukva.studies.attention_study import ablate_heads
from bukva.studies.heads import averaging_kernel, replaced_kernels
from bukva.text.held_out import Passage


def test_a_head_contributes_what_the_score_loses_without_it():
    model, runs = gpt(), [random_text(200), random_text(90, seed=5)]
    found = ablate_heads(model, [Passage(0, run, 1) for run in runs], TOKENIZER)

    def bits_with(kernel_of):
        with replaced_kernels(model, kernel_of):
            nats = np.concatenate([nats_of(model, run, T, T // 2) for run in runs])
        return nats.mean(dtype=np.float64) / math.log(2)

    learned = bits_with(lambda _: attend_explicit)
    every = bits_with(lambda _: averaging_kernel(torch.tensor([True, True])))
    assert found["bits_per_char"] == pytest.approx(learned, abs=1e-5)
    assert found["all_uniform"] == pytest.approx(every - learned, abs=1e-5)
    assert np.shape(found["heads_uniform"]) == (2, nh)
    for layer, head in np.ndindex(2, nh):
        chosen = torch.arange(nh) == head
        one = bits_with(lambda i, layer=layer, chosen=chosen: averaging_kernel(chosen & (i == layer)))
        assert found["heads_uniform"][layer][head] == pytest.approx(one - learned, abs=1e-5)
        assert abs(one - learned) > 1e-4
