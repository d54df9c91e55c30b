"""Generate text: a model continues a prompt, one id at a time.

The model sees a window at the end of the text. The window grows until it contains block_size ids. Then its start moves
forward by half a block, and the window grows again. So in a long text, the context has between half a block and a whole
block, as when the model is scored (bukva.scoring.window_rule). In the lecture notes, it moves at every character.

As long as the start of the window does not move, the KV cache is valid, and a new id costs the computation of one
position. When the start moves, the cache must be computed again: learned position embeddings are absolute, and the keys
of the upper layers depend on the ids that left the window. The n-grams of a model also use the ids before the window.
"""

from collections.abc import Iterator, Sequence
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from bukva.models.base import LanguageModel
from bukva.scoring.window_rule import stride_of


class Drawing(TypedDict):
    """How ids are drawn (see `draw`)."""

    temperature: float | Tensor  # a tensor has one for each text, (B, 1)
    top_k: int
    top_p: float
    rng: torch.Generator | Sequence[torch.Generator]  # on the CPU; one for all texts, or one for each of the B texts


def generate(model: LanguageModel, ids: Tensor, n_chars: int, **drawing: Unpack[Drawing]) -> Tensor:
    """Return (B, n_chars) new ids after B prompts, `ids` (B, T), by a model in evaluation mode."""
    drawn = [new_ids for new_ids, _ in generate_each(model, ids, n_chars, **drawing)]
    return torch.stack(drawn, dim=1) if drawn else ids[:, :0]


@torch.inference_mode()
def generate_each(
    model: LanguageModel, ids: Tensor, n_chars: int, **drawing: Unpack[Drawing]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the (B,) new ids of each step, and the (B, V) logits that predicted them."""
    T, n_before = ids.shape[1], model.n_before
    written = torch.cat([ids, ids.new_empty(len(ids), n_chars)], dim=1)
    cache, seen = model.new_cache(), 0  # without a cache, the whole window is computed again for each id
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
        written[:, stop] = draw(predicted, **drawing)
        yield written[:, stop], predicted


def window_start(stop: int, block_size: int) -> int:
    """Return the index of the first id in the window that ends right before index `stop`."""
    stride = stride_of(block_size)
    return max(0, -(-(stop - block_size) // stride)) * stride


def draw(
    logits: Tensor,
    temperature: float | Tensor,
    top_k: int,
    top_p: float,
    rng: torch.Generator | Sequence[torch.Generator],
) -> Tensor:
    """Draw (B,) ids from (B, V) logits, which are divided by the temperature (see `Drawing`).

    `keep_likeliest` explains `top_k` and `top_p`. Temperature 0 always takes the likeliest id. The ids are drawn on the
    CPU, so that the random numbers do not depend on the device. They are returned on the device of `logits`.
    """
    device, logits = logits.device, logits.cpu()
    divisor = torch.as_tensor(temperature, dtype=logits.dtype)
    highest, likeliest = logits.max(dim=-1, keepdim=True)  # (B, 1) each
    logits = (logits - highest) / divisor.clamp(min=torch.finfo(logits.dtype).tiny)  # at most 0, so no logit is inf
    probabilities = keep_likeliest(logits, top_k, top_p).softmax(dim=-1)
    texts = (
        [(probabilities, rng)] if isinstance(rng, torch.Generator) else zip(probabilities.split(1), rng, strict=True)
    )
    drawn = torch.cat([torch.multinomial(each, 1, generator=generator) for each, generator in texts])  # (B, 1)
    return torch.where(divisor == 0, likeliest, drawn)[:, 0].to(device)


def keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Apply top-k and then top-p (nucleus sampling; Holtzman et al. 2020) to (B, V) logits: removed ids become -inf.

    Top-k keeps the `top_k` likeliest ids. The probabilities of these ids are scaled to sum to 1. Then top-p keeps the
    smallest set of likeliest ids whose probabilities sum to at least `top_p`. `top_k=0` and `top_p=1` remove nothing.
    """
    if top_k == 0 and top_p == 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    if 0 < top_k < logits.shape[-1]:
        ordered[:, top_k:] = float("-inf")
    if top_p < 1:
        probabilities = ordered.softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities  # sum of the probabilities of all likelier ids
        ordered[:, 1:][before[:, 1:] >= top_p] = float("-inf")  # the likeliest id is always kept
    return torch.empty_like(logits).scatter_(-1, order, ordered)
