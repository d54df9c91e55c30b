"""Recording attention and replacing it, against the model itself and loops."""

import pytest
import torch
from lecture import average_by_loop
from studies.small import B, T, gpt, nh, random_ids

from bukva.models.attention import attend_explicit
from bukva.studies.heads import averaging_kernel, record_attention, replaced_kernels


@torch.inference_mode()
def test_recording_changes_nothing_and_gives_the_weights_of_the_model():
    model, x = gpt(), random_ids(B, T)
    before = model(x)
    recorded = record_attention(model, x)
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    assert [layer.weights.shape for layer in recorded] == [(B, nh, T, T)] * 2
    first = model.blocks[0]
    q, k, v = first.attention.split_heads(first.attention.qkv(first.ln_1(embedded(model, x)))).chunk(3, dim=1)
    torch.testing.assert_close(recorded[0].weights @ v, attend_explicit(q, k, v, causal=True))


def embedded(model, x):
    return model.wte(x) + model.wpe(torch.arange(x.shape[1]))


def test_the_kernels_are_put_back_also_after_an_error():
    model = gpt()
    before = [block.attention.attend for block in model.blocks]
    with pytest.raises(KeyError), replaced_kernels(model, lambda _: attend_explicit):
        assert all(block.attention.attend is attend_explicit for block in model.blocks)
        raise KeyError
    assert [block.attention.attend for block in model.blocks] == before


def test_a_replaced_head_takes_the_mean_of_the_past_and_the_others_attend():
    q, k, v = (torch.randn(B, nh, T, 5, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2, 3))
    y = averaging_kernel(torch.tensor([False, True]))(q, k, v, causal=True, dropout=0.0)
    torch.testing.assert_close(y[:, 1], average_by_loop(v[:, 1]))
    torch.testing.assert_close(y[:, 0], attend_explicit(q, k, v, causal=True)[:, 0])
