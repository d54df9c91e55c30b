"""Continue a prompt: draw one id after another from the predictions of a model.

The logits are divided by the temperature. Then top-k and top-p (nucleus sampling; Holtzman et al. 2020) keep only the
likeliest ids.

The context is a window at the end of the text. In the lecture notes, the model sees the last block_size characters, and
all of them are computed again for every new character. Here the window grows until it contains block_size ids. Then its
start moves forward by half a block. So the context is between half a block and a whole block long, as when the model is
scored (bukva.models.window_rule).

While the start of the window does not move, the KV cache is valid, and a new id costs the computation of one position
instead of block_size positions. When the start moves, the cache must be computed again: learned position embeddings are
absolute, and even with rotary positions the keys of the upper layers depend on the ids that left the window.

The n-grams of a model also use the ids before the window.
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
    """Return the (B, n_chars) ids with which a model continues B prompts of equal length.

    Args:
        model: model in evaluation mode.
        ids: (B, T) ids of the prompts, T >= 1.
        n_chars: number of ids to generate for each prompt.
        temperature: divisor of the logits. With 0, the likeliest id is always chosen.
        top_k: draw only from this number of likeliest ids. With 0, draw from all ids.
        top_p: draw only from the likeliest ids, as few as are needed for this sum of probabilities. With 1, draw from
            all ids.
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
    """Generate one id per step for each of B prompts. Yield the (B,) new ids, and the (B, V) logits that predict them.

    The arguments are those of `generate`.
    """
    T, n_before = ids.shape[1], model.config.n_before
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
        written[:, stop] = draw(predicted, temperature, top_k, top_p, rng)
        yield written[:, stop], predicted


def window_start(stop: int, block_size: int) -> int:
    """Return the start of the window that ends before the id with index `stop`.

    The start is 0 if all `stop` ids fit into a block. Otherwise the window has between half a block and a whole block.
    """
    stride = stride_of(block_size)
    return max(0, -(-(stop - block_size) // stride)) * stride


def draw(logits: Tensor, temperature: float, top_k: int, top_p: float, rng: torch.Generator) -> Tensor:
    """Draw (B,) ids from (B, V) logits, after applying the temperature, top-k and top-p (see `generate`).

    The ids are drawn on the CPU, so that random numbers do not depend on the device, and returned on the device of
    `logits`.
    """
    device, logits = logits.device, logits.cpu()
    if temperature == 0:
        return logits.argmax(dim=-1).to(device)
    divisor = max(temperature, torch.finfo(logits.dtype).tiny)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / divisor  # at most 0, so that no logit becomes inf
    probabilities = keep_likeliest(logits, top_k, top_p).softmax(dim=-1)
    return torch.multinomial(probabilities, 1, generator=rng)[:, 0].to(device)


def keep_likeliest(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Return the (B, V) logits with -inf for every id that is removed by top-k or top-p.

    First, only the `top_k` likeliest ids are kept. Then, of these ids, only the likeliest are kept: as few as are
    needed for a sum of probabilities of at least `top_p`.
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
