"""Sampling: continue a prompt with a model.

The logits are divided by the temperature. Then top-k and top-p (nucleus sampling; Holtzman et al. 2020) keep only the
likeliest characters.

Context. In the lecture notes, the model sees the last block_size characters and recomputes all of them for every new
character. Here the start of the window is fixed until the window holds block_size characters; then it moves by half a
block. So the context is between half a block and a whole block, as when the model is scored
(bukva.models.window_rule).

While the start is fixed, the KV cache is valid, and a new character costs one position instead of block_size. A KV
cache cannot slide along with the window. Learned position embeddings are absolute, and even with rotary embeddings the
keys of the upper layers depend on the dropped characters.

The n-grams of a model also see the ids before the window.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from bukva.models.base import LanguageModel
from bukva.models.window_rule import stride_of


def generate(
    model: LanguageModel,
    ids: Tensor,
    n_chars: int,
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    rng: torch.Generator,
) -> Tensor:
    """Return the (B, n_chars) ids with which a model in evaluation mode continues a prompt.

    Args:
        model: model in evaluation mode.
        ids: (B, T) ids of the prompts, T >= 1.
        n_chars: number of ids to generate.
        temperature: divisor of the logits; 0 always takes the likeliest id.
        top_k: number of likeliest ids to draw from; 0 for all.
        top_p: draw from the fewest likeliest ids whose probabilities reach this sum; 1 for all.
        rng: random number generator on the CPU.
    """
    steps = generate_each(model, ids, n_chars, temperature=temperature, top_k=top_k, top_p=top_p, rng=rng)
    drawn = [new_ids for new_ids, _ in steps]
    return torch.stack(drawn, dim=1) if drawn else ids[:, :0]


@torch.inference_mode()
def generate_each(
    model: LanguageModel,
    ids: Tensor,
    n_chars: int,
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    rng: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the (B,) new ids of each step, and the (B, V) logits that they were drawn from.

    The arguments are those of `generate`.
    """
    T, n_before = ids.shape[1], model.config.n_before
    written = torch.cat([ids, ids.new_empty(len(ids), n_chars)], dim=1)
    cache, seen = model.new_cache(), 0  # without a cache, the whole window is recomputed for each character
    for stop in range(T, T + n_chars):
        start = window_start(stop, model.block_size)
        if stop == T or start > window_start(stop - 1, model.block_size):  # the start of the window has moved
            seen = start
            if cache:
                cache.clear()
        first = start if cache is None else seen
        logits = model(written[:, first:stop], cache, before=written[:, max(0, first - n_before) : first])
        seen = stop
        predicted = logits[:, -1].float()
        written[:, stop] = draw(predicted, temperature, top_k, top_p, rng)
        yield written[:, stop], predicted


def window_start(stop: int, block_size: int) -> int:
    """Return the start of the window that ends before character `stop`.

    The window is the whole text while that fits into a block. Later it holds between half a block and a whole block.
    """
    stride = stride_of(block_size)
    return max(0, -(-(stop - block_size) // stride)) * stride


def draw(logits: Tensor, temperature: float, top_k: int, top_p: float, rng: torch.Generator) -> Tensor:
    """Draw (B,) ids from (B, V) logits, on the CPU, so that random numbers do not depend on the device."""
    device, logits = logits.device, logits.cpu()
    if temperature == 0:
        return logits.argmax(dim=-1).to(device)
    divisor = max(temperature, torch.finfo(logits.dtype).tiny)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / divisor  # at most 0, so that no logit becomes inf
    probabilities = keep_likeliest(logits, top_k, top_p).softmax(dim=-1)
    return torch.multinomial(probabilities, 1, generator=rng)[:, 0].to(device)


def keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Return (B, V) logits with -inf for every id that top-k or top-p removes.

    The top_k likeliest ids are kept, and of these the fewest whose probabilities sum to at least top_p.
    """
    if top_k == 0 and top_p == 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    if 0 < top_k < logits.shape[-1]:
        ordered[:, top_k:] = float("-inf")
    if top_p < 1:
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # total probability of all likelier ids
        ordered[:, 1:][before[:, 1:] >= top_p] = float("-inf")  # the likeliest id is always kept
    return torch.empty_like(logits).scatter_(-1, order, ordered)
