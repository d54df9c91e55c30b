"""An embedding whose gradient is a matrix product.

torch adds the gradients of equal ids one after another if the result must be deterministic. This is slow if few ids
share many positions (docs/scaling-method.md).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MAX_ROWS = 512  # the product takes memory for one number for each pair of a row and a position


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.n_rows = len(weight)
        return F.embedding(ids, weight)  # (..., C)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (ids,) = ctx.saved_tensors
        with torch.autocast(ids.device.type, enabled=False):
            rows = torch.arange(ctx.n_rows, device=ids.device)[:, None]
            is_row = (ids.flatten() == rows).to(gradient.dtype)  # (V, N)
            return None, is_row @ gradient.flatten(0, -2)  # (V, N) @ (N, C)


class ProductEmbedding(nn.Embedding):
    """`nn.Embedding` with the same weights and output, and with a faster gradient on a GPU."""

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of the weights for `ids`, (...) -> (..., C)."""
        return _Lookup.apply(ids, self.weight)


def use_products(model: nn.Module) -> None:
    """Turn each embedding of `model` with at most MAX_ROWS rows into a `ProductEmbedding`."""
    for module in model.modules():
        if type(module) is nn.Embedding and module.num_embeddings <= MAX_ROWS:
            module.__class__ = ProductEmbedding
