"""The study of the mask."""

import math

import pytest
import torch
from studies.small import CPU, TOKENIZER, V, nh, random_text

from bukva.models.gpt import GPTConfig
from bukva.studies.attention_study import leak


@pytest.mark.slow
def test_without_the_mask_a_model_copies_its_targets_and_learns_nothing_else():
    torch.manual_seed(1)
    config = GPTConfig(V, 3, nh, 32, 64, 0.0)
    splits = {"train": random_text(20_000), "val": random_text(3000, seed=4)}
    found = leak(config, splits, TOKENIZER, 150, CPU)
    assert (found["n_layer"], found["block_size"], found["steps"][-1]) == (2, 32, 150)
    uniform_bits = math.log2(V)  # the text is noise: this is the best score without looking ahead
    assert found["unmasked"]["in_sight"][-1] < 0.3
    assert found["masked"]["in_sight"][-1] == pytest.approx(uniform_bits, abs=0.1)
    assert found["unmasked"]["out_of_sight"] > uniform_bits - 0.1
