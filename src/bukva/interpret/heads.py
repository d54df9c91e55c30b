"""What each head attends to: how broadly, how far back, and to which kind of character.

A "character" is here what an id stands for; the names of the roles say byte or token where it is one.

Everything is averaged over positions and windows. Row 0 of a window, which sees only itself, is left out. The roles are
those that others have found in trained transformers (Clark et al. 2019, "What Does BERT Look At?"; Olsson et al. 2022
on heads that copy), for characters.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bukva.interpret.experts import positions_in_words
from bukva.interpret.hooks import LayerAttention, record_attention
from bukva.models.gpt import GPT
from bukva.text.tokenizers.base import Tokenizer

Grid = npt.NDArray[np.float64]  # (n_layer, nh)
MOST_BACK = 4  # of the roles that count back
DIFFUSE = "diffuse"
BATCH_WEIGHTS = 2**24  # attention weights of one layer and batch, to bound the memory


@dataclass(frozen=True)
class Heads:
    """Statistics of each head of each layer, (n_layer, nh).

    entropy: of its weights, relative to that of the plain average; 0 is one character, 1 is the plain average.
    breadth: the effective share of the visible characters that it attends to (e to the entropy); 1 is all.
    distance: mean number of characters back.
    raw_variance, variance: of its scores before and after the scale, over the visible pairs.
    roles: role -> how much more weight the role gets than from the plain average: 0 as much, 1 all weight.
    """

    entropy: Grid
    breadth: Grid
    distance: Grid
    raw_variance: Grid
    variance: Grid
    roles: dict[str, Grid]

    def role(self, layer: int, head: int) -> tuple[str, float]:
        """The role that fits a head best, and its score; the score of diffuse is the breadth."""
        scores = {role: float(grid[layer, head]) for role, grid in self.roles.items()}
        scores[DIFFUSE] = float(self.breadth[layer, head])
        best = max(scores, key=scores.__getitem__)
        return best, scores[best]


def describe_heads(gpt: GPT, windows: Tensor, tokenizer: Tokenizer) -> Heads:
    """The heads of a model over (N, T) windows of ids."""
    per_batch = max(1, BATCH_WEIGHTS // (gpt.config.n_head * windows.shape[1] ** 2))
    batches = [_describe(record_attention(gpt, batch), batch, tokenizer) for batch in windows.split(per_batch)]
    shares = [len(batch) / len(windows) for batch in windows.split(per_batch)]
    mean = {
        name: np.asarray(sum(share * batch[name] for share, batch in zip(shares, batches, strict=True)))
        for name in batches[0]
    }
    named = {name: mean.pop(name) for name in ("entropy", "breadth", "distance", "raw_variance", "variance")}
    return Heads(**named, roles=mean)


def _describe(recorded: list[LayerAttention], ids: Tensor, tokenizer: Tokenizer) -> dict[str, Grid]:
    targets = role_targets(ids, tokenizer)
    layers = [
        {
            "entropy": relative_entropy(layer.weights),
            "breadth": breadth(layer.weights),
            "distance": mean_distance(layer.weights),
            **variances(layer),
            **{role: role_score(layer.weights, target) for role, target in targets.items()},
        }
        for layer in recorded
    ]
    return {name: np.stack([found[name].double().cpu().numpy() for found in layers]) for name in layers[0]}


def relative_entropy(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean of the entropy of row t over ln(t + 1), its greatest value."""
    return (_entropy(weights) / _visible(weights).log()).mean((0, 2))


def breadth(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean of e to the entropy of row t over the t + 1 visible characters."""
    return (_entropy(weights).exp() / _visible(weights)).mean((0, 2))


def _entropy(weights: Tensor) -> Tensor:
    """(B, nh, T, T) -> (B, nh, T - 1) nats of every row but the first."""
    return torch.special.entr(weights).sum(-1)[..., 1:]


def _visible(weights: Tensor) -> Tensor:
    """(T - 1,), how many characters are visible in each row but the first."""
    return torch.arange(2, weights.shape[-1] + 1, device=weights.device)


def mean_distance(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean number of characters back."""
    t = torch.arange(weights.shape[-1], device=weights.device)
    back = (t[:, None] - t).clamp(min=0)  # (T, T)
    return (weights * back).sum(-1)[..., 1:].mean((0, 2))


def variances(layer: LayerAttention) -> dict[str, Tensor]:
    """(nh,) variances of the scores before and after the scale, over the pairs that the mask lets through."""
    raw = layer.q @ layer.k.mT  # (B, nh, T, T)
    T, hs = layer.q.shape[-2:]
    visible = torch.ones(T, T, dtype=torch.bool, device=raw.device).tril()
    per_head = raw.transpose(0, 1)[..., visible].flatten(1).double()  # (nh, B T (T + 1) / 2)
    return {"raw_variance": per_head.var(dim=1), "variance": (per_head * hs**-0.5).var(dim=1)}


def role_score(weights: Tensor, target: Tensor) -> Tensor:
    """The weight on the target beyond that of the plain average, as a share of the most that is possible.

    Args:
        weights: (B, nh, T, T).
        target: (B, T, T), True where key s plays the role for query t; rows without a target do not count.

    Returns:
        (nh,), 1 when all weight is on the target, 0 for the plain average, negative for less.
    """
    plain = (
        target.float().mul(1 / torch.arange(1, target.shape[-1] + 1, device=target.device)[:, None]).sum(-1)
    )  # (B, T)
    counts = (plain > 0) & (plain < 1)
    if not counts.any():
        return weights.new_zeros(weights.shape[1])
    on_target = (weights * target[:, None]).sum(-1).transpose(0, 1)[:, counts].mean(1)  # (nh,)
    by_chance = plain[counts].mean()
    return (on_target - by_chance) / (1 - by_chance)


def roles_back(unit: str) -> dict[str, int]:
    """The roles that count back, and how far."""
    return {f"previous {unit}": 1, **{f"{n} back": n for n in range(2, MOST_BACK + 1)}}


def role_targets(ids: Tensor, tokenizer: Tokenizer) -> dict[str, Tensor]:
    """(B, T) ids -> role -> (B, T, T), True where key s plays that role for query t; row 0 is left out."""
    B, T = ids.shape
    t = torch.arange(T, device=ids.device)
    query, key = t[:, None], t[None, :]
    earlier = key < query  # (T, T), without the query itself
    parts = [tokenizer.parts(window) for window in ids.cpu().numpy()]  # B lists of T texts
    positions = torch.tensor([positions_in_words(texts) for texts in parts], device=ids.device)  # (B, T)
    starts = torch.where(positions == 1, t, -1).cummax(dim=1).values  # (B, T), where the last word starts
    newline = torch.tensor([[text.endswith("\n") for text in texts] for texts in parts], device=ids.device)  # (B, T)
    return {
        **{role: (key == query - n).expand(B, T, T) for role, n in roles_back(tokenizer.unit).items()},
        "itself": (key == query).expand(B, T, T) & (query > 0),
        "first position": (key == 0).expand(B, T, T) & earlier,
        f"same {tokenizer.unit}": (ids[:, :, None] == ids[:, None, :]) & earlier,
        "word start": (key == starts[:, :, None]) & earlier,
        "newline": newline[:, None, :] & earlier,
    }
