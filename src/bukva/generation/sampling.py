"""Sampling: let a model continue a prompt.

Temperature divides the logits; top-k and top-p (nucleus; Holtzman et al. 2020) then leave only the likeliest
characters.

What the model sees. The notes show it the last block_size characters and compute all of them anew for every
character. Here what it sees starts at one place until block_size characters are there, and then moves on by half a
block, so that it sees between half a block and a whole one, as in the window rule of the scores. Between two moves
nothing that was computed changes, so keys and values can be kept in a cache, and each character costs one position
instead of block_size. Without the cache the same characters come out, only slower. A cache cannot slide: positions
are absolute when learned, and even rotary ones leave traces of dropped characters in the keys of the upper layers.
"""

import torch
from torch import Tensor

from bukva.models.base import LanguageModel
from bukva.scoring.window_rule import stride_of


@torch.inference_mode()
def generate(
    model: LanguageModel,
    ids: Tensor,
    n_chars: int,
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    rng: torch.Generator,
    cached: bool = True,
) -> Tensor:
    """(B, T) prompt ids, T >= 1 -> (B, n_chars) ids that follow, by a model in evaluation mode.

    Temperature 0 takes the likeliest character; top_k = 0 and top_p = 1 keep all characters. A model without caches is
    computed anew for each character.
    """
    T = ids.shape[1]
    written = torch.cat([ids, ids.new_empty(len(ids), n_chars)], dim=1)
    caches, seen = model.new_caches() if cached else None, 0
    for stop in range(T, T + n_chars):
        start = first_seen(stop, model.block_size)
        if caches is not None:
            if seen == 0 or start > first_seen(stop - 1, model.block_size):
                caches, seen = model.new_caches(), start  # the window has moved: start with empty caches
            logits = model(written[:, seen:stop], caches)
            seen = stop
        else:
            logits = model(written[:, start:stop])
        written[:, stop] = draw(logits[:, -1].float(), temperature, top_k, top_p, rng)
    return written[:, T:]


def first_seen(stop: int, block_size: int) -> int:
    """Which of the first `stop` characters is the first that a model sees; it sees at least half a block."""
    stride = stride_of(block_size)
    return max(0, -(-(stop - block_size) // stride)) * stride


def draw(logits: Tensor, temperature: float, top_k: int, top_p: float, rng: torch.Generator) -> Tensor:
    """(B, V) logits -> (B,) ids drawn from them."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    divisor = max(temperature, torch.finfo(logits.dtype).tiny)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / divisor  # at most 0, so that nothing overflows
    probabilities = keep_likeliest(logits, top_k, top_p).softmax(dim=-1)
    return torch.multinomial(probabilities.cpu(), 1, generator=rng)[:, 0].to(logits.device)


def keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """(B, V) logits with -inf for all but the top_k likeliest, and of these but the fewest that hold top_p."""
    if top_k == 0 and top_p == 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    if 0 < top_k < logits.shape[-1]:
        ordered[:, top_k:] = float("-inf")
    if top_p < 1:
        shares = ordered.softmax(dim=-1)
        before = shares.cumsum(dim=-1) - shares  # what the likelier ones hold already
        ordered[:, 1:][before[:, 1:] >= top_p] = float("-inf")  # the likeliest stays, however small top_p is
    return torch.empty_like(logits).scatter_(-1, order, ordered)
