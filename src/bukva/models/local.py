"""Layers that read only the last few positions: short convolutions, and embeddings of hashed n-grams."""

import torch
from torch import Tensor, nn

from bukva.models.attention import KVCache, LayerCache

HASH_BITS, HASH_CHANNELS = 14, 32  # `HashedNgrams` has 2^14 rows of 32 numbers for each length
HASH_BASE, HASH_FACTOR = 6364136223846793005, 2862933555777941757  # odd multipliers, from random number generators


class ShortConvolution(nn.Module):
    """Add the three positions before to each position, (B, T, C), with learned weights for each channel.

    This is the "Canon layer" of Allen-Zhu 2025, "Physics of Language Models: Part 4.1", at one of its four places.
    """

    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3 * n_embd))  # a vector, so that the weights do not decay

    def forward(self, x: Tensor, cache: LayerCache | None = None) -> Tensor:
        B, T, C = x.shape
        last = cache.last if cache and cache.length else None
        if last is None:  # the text begins here
            last = x.new_zeros(B, 3, C)
        padded = torch.cat([last, x], dim=1)  # (B, 3 + T, C)
        if cache is not None:
            cache.last = padded[:, -3:]
        for k, weight in enumerate(self.weight.view(3, -1)):
            x = torch.addcmul(x, padded[:, k : k + T], weight)
        return x


class HashedNgrams(nn.Module):
    """Learned embeddings of the last n ids at each position, for R lengths n.

    A hash function chooses the row of an n-gram, so some n-grams share a row. Ids before the window count as a symbol
    of their own. Source: DeepSeek 2026, "Engram" (arXiv 2601.07372), which adds them inside the model, with gates.
    """

    def __init__(self, lengths: tuple[int, ...], n_embd: int) -> None:
        super().__init__()
        self.lengths, self.n_before = lengths, max(lengths) - 1
        # one table for each length, because processes that train together share out the update by whole tensors
        self.tables = nn.ModuleList(nn.Embedding(2**HASH_BITS, HASH_CHANNELS) for _ in lengths)
        self.proj = nn.Linear(len(lengths) * HASH_CHANNELS, n_embd, bias=False)

    def forward(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Return the (B, T, C) sum of the projected embeddings for (B, T) ids."""
        last = cache.last_ids if cache and cache.length else None
        if last is None:  # the text begins here
            last = ids.new_full((len(ids), self.n_before), -1)
        padded, T = torch.cat([last, ids], dim=1), ids.shape[1]
        if cache is not None:
            cache.last_ids = padded[:, -self.n_before :]
        codes = [torch.zeros_like(ids)]  # of the last 0, 1, ... ids
        for start in range(self.n_before, -1, -1):
            codes.append(codes[-1] * HASH_BASE + padded[:, start : start + T] + 1)  # modulo 2^64
        rows = [(codes[n] * HASH_FACTOR >> 64 - HASH_BITS) & 2**HASH_BITS - 1 for n in self.lengths]  # the upper bits
        return self.proj(torch.cat([table(row) for table, row in zip(self.tables, rows, strict=True)], dim=-1))
