"""Why scores are divided by the square root of the head size: without it, softmax puts nearly all weight on one key."""

from typing import Any

import torch

from bukva.models.attention import attention_weights

HEAD_SIZES = (4, 8, 16, 32, 64, 128, 256)
KEYS, DRAWS = 64, 2000  # keys of each query, and how many queries are drawn
SEED = 1337


def scale_table() -> list[dict[str, Any]]:
    """For random queries and keys of variance 1: variance of their products, largest weight, entropy; raw and scaled.

    Returns:
        One row for each head size; entropies in nats, at most ln 64.
    """
    rows = []
    for hs in HEAD_SIZES:
        rng = torch.Generator().manual_seed(SEED)
        q, k = torch.randn(DRAWS, 1, hs, generator=rng), torch.randn(DRAWS, KEYS, hs, generator=rng)
        raw = (q @ k.mT)[:, 0]  # (DRAWS, KEYS)
        row: dict[str, Any] = {"head_size": hs}
        for name, scores in (("raw", raw), ("scaled", raw * hs**-0.5)):
            weights = attention_weights(scores)
            row[name] = {
                "variance": float(scores.var()),
                "peak": float(weights.amax(-1).mean()),
                "entropy": float(torch.special.entr(weights).sum(-1).mean()),
            }
        rows.append(row)
    return rows
