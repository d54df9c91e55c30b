"""One position, computed by loops, against the layers of many."""

import numpy as np
import pytest
import torch

from bukva.models import position
from bukva.models.attention import Attention, LayerCache, attend_fused, rotary_cos_sin


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def bits(x):
    return x.bfloat16().view(torch.uint16).numpy()


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 11, 64])
def test_a_product_has_every_row(n_rows):
    weight, x = drawn(n_rows, 37).bfloat16(), drawn(37, seed=1).bfloat16()
    y = torch.from_numpy(position.product(bits(weight), bits(x))).view(torch.bfloat16)
    torch.testing.assert_close(y.double(), weight.double() @ x.double(), rtol=2**-8, atol=1e-6)


def test_products_are_rounded_as_torch_rounds():
    ties = torch.tensor([0x3F808000, 0x3F818000, 0x3F817FFF, 0x3F808001, 0x7F7FFFFF, 0x00008001], dtype=torch.int32)
    x = torch.cat([ties.view(torch.float32), -ties.view(torch.float32), torch.tensor([0.0, torch.inf, -torch.inf])])
    ours = [position._bf16(number) for number in x.numpy()]
    assert ours == bits(x).tolist()
    assert torch.tensor([position._bf16(np.float32(np.nan))], dtype=torch.uint16).view(torch.bfloat16).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("qk_norm", [False, True])
@torch.inference_mode()
def test_positions_one_by_one_are_the_positions_together(dtype, rotary, qk_norm):
    T, hs = 7, 6
    layer = Attention(3 * hs, 3, causal=True, qk_norm=qk_norm).to(dtype)
    x = drawn(1, T, 3 * hs).to(dtype)
    cos_sin = rotary_cos_sin(0, T, hs) if rotary else None
    cache = LayerCache(T)
    each = [
        layer(x[:, t : t + 1], cos_sin=None if cos_sin is None else cos_sin[:, t : t + 1], cache=cache)
        for t in range(T)
    ]
    torch.testing.assert_close(torch.cat(each, dim=1), layer(x, cos_sin=cos_sin))


@torch.inference_mode()
def test_a_single_position_uses_a_replaced_kernel():
    layer, asked = Attention(6, 2, causal=True), []
    layer.attend = lambda *args, **options: asked.append(options) or attend_fused(*args, **options)
    layer(drawn(1, 1, 6), cache=LayerCache(3))
    assert asked == [{"causal": True, "dropout": 0.0}]


@torch.inference_mode()
def test_a_full_cache_takes_no_single_position():
    layer, cache = Attention(6, 2, causal=True), LayerCache(1)
    layer(drawn(1, 1, 6), cache=cache)
    with pytest.raises(ValueError, match="2 positions do not fit a cache of 1"):
        layer(drawn(1, 1, 6), cache=cache)
