"""Sampling: let a model go on from a prompt.

Temperature divides the logits; top-k and top-p (nucleus; Holtzman et al. 2020) then leave only the likeliest
characters. A model sees the last block_size characters of what is written so far, as in the notes.
"""

import torch
from torch import Tensor

from bukva.modelfolder import Model


@torch.inference_mode()
def generate(
    model: Model,
    ids: Tensor,
    n_chars: int,
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    rng: torch.Generator,
) -> Tensor:
    """(B, T) prompt ids, T >= 1 -> (B, n_chars) ids that follow.

    Temperature 0 takes the likeliest character; top_k = 0 and top_p = 1 leave all characters in.
    """
    written = ids
    for _ in range(n_chars):
        logits = model(written[:, -model.block_size :])[:, -1].float()  # (B, V)
        written = torch.cat([written, draw(logits, temperature, top_k, top_p, rng)], dim=1)
    return written[:, ids.shape[1] :]


def draw(logits: Tensor, temperature: float, top_k: int, top_p: float, rng: torch.Generator) -> Tensor:
    """(B, V) logits -> (B, 1) ids drawn from them."""
    if temperature == 0:
        return logits.argmax(dim=-1, keepdim=True)
    probabilities = keep_likeliest(logits / temperature, top_k, top_p).softmax(dim=-1)
    return torch.multinomial(probabilities.cpu(), 1, generator=rng).to(logits.device)


def keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """(B, V) logits with -inf for all but the top_k likeliest, and of these but the fewest that hold top_p."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    if 0 < top_k < logits.shape[-1]:
        ordered[:, top_k:] = float("-inf")
    if top_p < 1:
        shares = ordered.softmax(dim=-1)
        before = shares.cumsum(dim=-1) - shares  # what the likelier ones hold already; 0 for the first, so one stays
        ordered[before >= top_p] = float("-inf")
    return torch.empty_like(logits).scatter_(-1, order, ordered)
