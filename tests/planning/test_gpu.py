"""Predictions of operations, memory and time for a GPU that this machine does not have."""

import dataclasses

import pytest
import torch
from plans import ALL
from tiny import WITH_MEMORY
from torch.utils.flop_counter import FlopCounterMode

from bukva.core.errors import BukvaError
from bukva.models.base import Examples
from bukva.models.gpt import GPTConfig
from bukva.models.registry import build, count_parameters
from bukva.planning.gpu import CARDS, NOT_MEASURED, card_named, flops_per_id, prediction_lines, seconds_per_update
from bukva.planning.memory import least_bytes

H100 = CARDS["h100"]
BABY = GPTConfig(65, n_layer=6, n_head=6, n_embd=384, block_size=256, dropout=0.2)  # learned positions, no biases
DEFAULT = GPTConfig(76, **ALL.model.model_dump())


def test_an_id_costs_six_operations_per_parameter_in_a_product_and_six_per_layer_channel_and_position():
    """Each block has 12 C^2 weights in four matrices, and LayerNorm has 2 C."""
    n = 6 * 12 * 384**2 + 384 * 65 + 13 * 2 * 384
    assert flops_per_id(BABY) == 6 * n + 6 * 6 * 384 * 256
    tied = dataclasses.replace(BABY, tie_weights=True, positions="rotary")
    assert flops_per_id(tied) == flops_per_id(BABY)
    # nanoGPT's estimate_mfu: all parameters but the positions, and both halves of attention
    nanogpt = 6 * (count_parameters(tied)) + 12 * 6 * 6 * 64 * 256
    assert nanogpt - flops_per_id(tied) == 6 * 6 * 384 * 256


@pytest.mark.parametrize("changes", [{}, {"tie_weights": True}, {"positions": "rotary", "qk_norm": True}])
def test_torch_counts_the_same_operations_in_products_with_weights(changes):
    config = GPTConfig(65, n_layer=3, n_head=2, n_embd=64, block_size=32, dropout=0.0, **changes)
    ids = torch.zeros(4, 32, dtype=torch.int64)
    model = build(config)
    with FlopCounterMode(display=False) as counter:
        model.losses(Examples(ids, ids)).minimized.backward()
    gains = sum(parameter.numel() for parameter in model.parameters() if parameter.ndim == 1)
    expected = flops_per_id(config) - 6 * gains - 6 * 3 * 64 * 32
    assert counter.get_flop_counts()["Global"][torch.ops.aten.mm] == expected * ids.numel()


def test_a_prediction_for_the_card_that_was_measured_agrees_with_what_was_measured():
    """An update took 6.64 ms with 10.7 million parameters, and 0.96 ms with the default model.

    With n-grams, it took 54.7 ms for a batch of 64 x 256 ids.
    """
    assert 1000 * seconds_per_update(BABY, 64, H100, 0.17) == pytest.approx(6.64, rel=0.02)
    assert {seconds_per_update(DEFAULT, 16, H100, share) for share in (0.17, 0.4)} == {0.96e-3}
    with_ngrams = dataclasses.replace(BABY, ngrams="input")
    assert 1000 * seconds_per_update(with_ngrams, 64, H100, 0.4) == pytest.approx(54.7)
    assert seconds_per_update(BABY, 64, CARDS["a100"], 0.3) == pytest.approx(
        64 * 256 * flops_per_id(BABY) / (0.3 * 312e12)
    )


def lines(config, card=H100, budget=0.0, **changes):
    return list(prediction_lines(config, ALL.train_gpt.model_copy(update=changes), card, 1_000_000, budget))


def test_the_lines_have_operations_memory_time_and_where_they_come_from():
    shown = lines(BABY, batch_size=64, n_steps=1000, budget=60.0)
    assert shown[0] == "Prediction for one NVIDIA H100 80GB HBM3 with the model and training settings of params.yaml:"
    assert shown[1] == "Model: 10.8M parameters, 1.11 TFLOP per update"
    # Muon keeps 3 float32 copies of 10.76 million weights. Each id takes 16 x 6 x 384 activations of 2 bytes and 65
    # logits of 8 bytes.
    assert shown[2] == "Memory: at least 1.25 of 80 GiB (weights and optimizer 0.12 GiB, activations 1.13 GiB)"
    assert shown[3] == "One update of 16,384 ids: 2.79 ms (at 40 % of 989 TFLOPS) to 6.57 ms (at 17 %)"
    assert shown[4] == "All 1,000 updates (16.4 epochs): 3 s to 7 s, without compilation and scoring"
    assert shown[5].startswith("Updates that fit into 1 min 00 s: 9,1")
    assert shown[6:] == [NOT_MEASURED]


def test_n_grams_take_memory_and_what_does_not_fit_is_a_warning():
    """Each of the two experts has 7 symbols, with four numbers of 2 bytes for each symbol."""
    batch = 2**22
    memory = lines(WITH_MEMORY, batch_size=batch)[2]
    assert memory.endswith(f", n-gram distributions {batch * 5 * 2 * 4 * 7 * 2 / 2**30:.2f} GiB)")
    needed = least_bytes(BABY, ALL.train_gpt.model_copy(update={"batch_size": 2048}), on_gpu=True)
    assert 24 < needed / 2**30 < 80
    assert lines(BABY, CARDS["l4"], batch_size=2048)[-2].startswith(
        "Warning: the memory of this GPU is too small. Increase "
    )
    assert not any(line.startswith("Warning") for line in lines(BABY, H100, batch_size=2048))


def test_a_card_is_found_by_its_short_name():
    assert card_named("H100") is H100
    with pytest.raises(BukvaError, match=r"^`--gpu k80` is not a known GPU\. Use h100, h200, a100, l4 or rtx4090\.$"):
        card_named("k80")
