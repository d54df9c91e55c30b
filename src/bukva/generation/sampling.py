"""Sampling: a model continues a prompt.

Temperature divides the logits; top-k and top-p (nucleus; Holtzman et al. 2020) then keep only the likeliest
characters.

What the model sees. The lecture notes show it the last block_size characters, and recompute all of them for every new
character. Here the window keeps its start until it holds block_size characters; then the start moves by half a block.
So the model sees between half a block and a whole one, as in the window rule of the scores. Between two moves keys and
values stay valid and are cached, so that each character costs one position instead of block_size. A cache cannot
slide: learned positions are absolute, and even with rotary ones the keys of the upper layers depend on the characters
that were dropped. The counts of a model see the ids before its window, too.
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
    """(B, T) prompt ids, T >= 1 -> (B, n_chars) ids that follow, by a model in evaluation mode.

    Temperature 0 takes the likeliest character; top_k = 0 and top_p = 1 keep all characters.
    """
    steps = generate_each(model, ids, n_chars, temperature=temperature, top_k=top_k, top_p=top_p, rng=rng)
    drawn = [following for following, _ in steps]
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
    """As generate, one after the other: the (B,) ids that follow, and the (B, V) logits that they were drawn from."""
    T, n_before = ids.shape[1], model.config.n_before
    written = torch.cat([ids, ids.new_empty(len(ids), n_chars)], dim=1)
    cache, seen = model.new_cache(), 0  # without a cache the window is computed again for each character
    for stop in range(T, T + n_chars):
        start = first_seen(stop, model.block_size)
        if stop == T or start > first_seen(stop - 1, model.block_size):  # the window begins elsewhere
            seen = start
            if cache:
                cache.clear()
        first = start if cache is None else seen
        logits = model(written[:, first:stop], cache, before=written[:, max(0, first - n_before) : first])
        seen = stop
        predicted = logits[:, -1].float()
        written[:, stop] = draw(predicted, temperature, top_k, top_p, rng)
        yield written[:, stop], predicted


def first_seen(stop: int, block_size: int) -> int:
    """The start of the window that ends before character `stop`; it holds at least half a block, once there is one."""
    stride = stride_of(block_size)
    return max(0, -(-(stop - block_size) // stride)) * stride


def draw(logits: Tensor, temperature: float, top_k: int, top_p: float, rng: torch.Generator) -> Tensor:
    """(B, V) logits -> (B,) ids drawn from them. Draws on the CPU: all devices get the same random numbers."""
    device, logits = logits.device, logits.cpu()
    if temperature == 0:
        return logits.argmax(dim=-1).to(device)
    divisor = max(temperature, torch.finfo(logits.dtype).tiny)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / divisor  # at most 0, so that nothing overflows
    probabilities = keep_likeliest(logits, top_k, top_p).softmax(dim=-1)
    return torch.multinomial(probabilities, 1, generator=rng)[:, 0].to(device)


def keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """(B, V) logits -> the same with -inf for all but the top_k likeliest, and of these the fewest that reach top_p."""
    if top_k == 0 and top_p == 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    if 0 < top_k < logits.shape[-1]:
        ordered[:, top_k:] = float("-inf")
    if top_p < 1:
        shares = ordered.softmax(dim=-1)
        before = shares.cumsum(dim=-1) - shares  # the probability of all that are likelier
        ordered[:, 1:][before[:, 1:] >= top_p] = float("-inf")  # the likeliest always stays
    return torch.empty_like(logits).scatter_(-1, order, ordered)
