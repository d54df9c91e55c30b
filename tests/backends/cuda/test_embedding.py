"""The embedding of the CUDA backend computes what torch's embedding computes. All of it runs on the CPU as well."""

import pytest
import torch
from torch import nn

from bukva.backends.cuda.embedding import ProductEmbedding, use_products

V, C = 7, 5
IDS = torch.tensor([[3, 3, 0], [6, 3, 1]])  # 3 occurs three times, and 2, 4 and 5 never


def gradient(embedding, compiled=False):
    torch.manual_seed(1)
    direction = torch.randn(*IDS.shape, C)
    call = torch.compile(embedding, fullgraph=True) if compiled else embedding
    with torch.autocast("cpu", torch.bfloat16):
        out = call(IDS)
    (out * direction).sum().backward()
    return out.detach(), embedding.weight.grad, direction


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch compiles a Function by making one
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_gradient_of_a_row_is_the_sum_over_its_positions(compiled):
    embedding = nn.Embedding(V, C)
    weight = embedding.weight.detach().clone()
    use_products(embedding)
    out, grad, direction = gradient(embedding, compiled)
    assert isinstance(embedding, ProductEmbedding)
    assert torch.equal(out, weight[IDS])
    expected = torch.stack([direction[row == IDS].sum(0) for row in range(V)])
    torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-6)
