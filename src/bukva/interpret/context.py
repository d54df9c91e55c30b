"""How much context contributes: bits per character with exactly 1, 2, 4 ... ids of context."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.models.gpt import GPT
from bukva.models.window_rule import ids_per_batch
from bukva.text.ids import Ids, bits
from bukva.text.tokenizers.base import Tokenizer


@torch.inference_mode()
def score_by_context(gpt: GPT, ids: Ids, tokenizer: Tokenizer, n_ids: int) -> list[dict[str, float]]:
    """Bits per character with exactly 1, 2, 4 ... block_size ids of context.

    Args:
        gpt: the model.
        ids: (N,) ids.
        tokenizer: of the ids.
        n_ids: how many ids are scored, the same ids for every length, spread evenly over all.

    Returns:
        For each length: chars (the length, in ids), bits_per_char, and the standard error of its difference to the
        score with the whole block.
    """
    T, device = gpt.block_size, gpt.wte.weight.device
    scored = np.unique(np.linspace(T, len(ids) - 1, min(n_ids, len(ids) - T)).astype(np.int64))
    ids_per_char = len(scored) / float(tokenizer.chars_of(ids[scored]).sum())
    windows = torch.from_numpy(ids[scored[:, None] + np.arange(-T, 1)].astype(np.int64)).to(device)  # (n, T + 1)
    lengths = [*(2**i for i in range(T.bit_length()) if 2**i < T), T]
    batch_ids = ids_per_batch(gpt)
    nats = {
        n: torch.cat([_last_nats(gpt, batch[:, -n - 1 :]) for batch in windows.split(max(1, batch_ids // n))])
        for n in lengths
    }
    return [
        {
            "chars": n,
            "bits_per_char": bits(float(nats[n].mean())) * ids_per_char,
            "standard_error": bits(float((nats[n] - nats[T]).std() * len(scored) ** -0.5)) * ids_per_char,
        }
        for n in lengths
    ]


def _last_nats(gpt: GPT, window: Tensor) -> Tensor:
    """(B, n + 1) ids -> (B,) nats of the last, given the n before it."""
    return F.cross_entropy(gpt(window[:, :-1])[:, -1], window[:, -1], reduction="none").double()
