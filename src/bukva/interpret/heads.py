"""What each head looks at: how widely, how far back, and at which kind of character.

Everything is averaged over positions and windows; row 0 of a window, which can look at itself only, says nothing and is
left out. Roles follow what others have found in trained transformers (Clark et al. 2019, "What Does BERT Look At?";
Olsson et al. 2022 on heads that copy), told in characters.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bukva.interpret.lens import Look, looks
from bukva.models.gpt import GPT

Grid = npt.NDArray[np.float64]  # (n_layer, nh)
BACK = {"previous character": 1, "2 back": 2, "3 back": 3, "4 back": 4}
DIFFUSE = "diffuse"
BATCH_WEIGHTS = 2**24  # numbers in the weights of one layer and batch, to bound the memory


@dataclass(frozen=True)
class Heads:
    """One number for each head of each layer, (n_layer, nh).

    entropy: of its weights, relative to looking everywhere alike; 0 is one character, 1 is the plain average.
    breadth: the share of the characters in sight that it looks at in effect (e to the entropy); 1 is all.
    distance: characters back, on average.
    raw_variance, variance: of its scores before and after the scale, over what it may look at.
    roles: role -> how much more it looks there than the plain average would: 0 as much, 1 nowhere else.
    """

    entropy: Grid
    breadth: Grid
    distance: Grid
    raw_variance: Grid
    variance: Grid
    roles: dict[str, Grid]

    def role(self, layer: int, head: int) -> tuple[str, float]:
        """The role that fits a head best, and its score; diffuse has the breadth for its score."""
        scores = {role: float(grid[layer, head]) for role, grid in self.roles.items()}
        scores[DIFFUSE] = float(self.breadth[layer, head])
        best = max(scores, key=scores.__getitem__)
        return best, scores[best]


def describe_heads(gpt: GPT, windows: Tensor, chars: list[str]) -> Heads:
    """The heads of a model over (N, T) windows of ids; `chars` are the characters behind the ids."""
    per_batch = max(1, BATCH_WEIGHTS // (gpt.config.n_head * windows.shape[1] ** 2))
    parts = [_describe(looks(gpt, batch), batch, chars) for batch in windows.split(per_batch)]
    shares = [len(batch) / len(windows) for batch in windows.split(per_batch)]
    mean = {
        name: np.asarray(sum(share * part[name] for share, part in zip(shares, parts, strict=True)))
        for name in parts[0]
    }
    named = {name: mean.pop(name) for name in ("entropy", "breadth", "distance", "raw_variance", "variance")}
    return Heads(**named, roles=mean)


def _describe(seen: list[Look], ids: Tensor, chars: list[str]) -> dict[str, Grid]:
    targets = role_targets(ids, chars)
    layers = [
        {
            "entropy": relative_entropy(look.weights),
            "breadth": breadth(look.weights),
            "distance": mean_distance(look.weights),
            **variances(look),
            **{role: role_score(look.weights, target) for role, target in targets.items()},
        }
        for look in seen
    ]
    return {name: np.stack([layer[name].double().cpu().numpy() for layer in layers]) for name in layers[0]}


def relative_entropy(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean of the entropy of row t over ln(t + 1), its greatest value."""
    return (_entropy(weights) / _visible(weights).log()).mean((0, 2))


def breadth(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), mean of e to the entropy of row t over the t + 1 characters in sight."""
    return (_entropy(weights).exp() / _visible(weights)).mean((0, 2))


def _entropy(weights: Tensor) -> Tensor:
    """(B, nh, T, T) -> (B, nh, T - 1) nats of every row but the first."""
    return torch.special.entr(weights).sum(-1)[..., 1:]


def _visible(weights: Tensor) -> Tensor:
    """(T - 1,), how many characters each row but the first can look at."""
    return torch.arange(2, weights.shape[-1] + 1, device=weights.device)


def mean_distance(weights: Tensor) -> Tensor:
    """(B, nh, T, T) weights -> (nh,), how many characters back a row looks on average."""
    t = torch.arange(weights.shape[-1], device=weights.device)
    back = (t[:, None] - t).clamp(min=0)  # (T, T)
    return (weights * back).sum(-1)[..., 1:].mean((0, 2))


def variances(look: Look) -> dict[str, Tensor]:
    """(nh,) variances of the scores before and after the scale, over the pairs that the mask lets through."""
    raw = look.q @ look.k.mT  # (B, nh, T, T)
    T, hs = look.q.shape[-2:]
    visible = torch.ones(T, T, dtype=torch.bool, device=raw.device).tril()
    of_head = raw.transpose(0, 1)[..., visible].flatten(1).double()  # (nh, B T (T + 1) / 2)
    return {"raw_variance": of_head.var(dim=1), "variance": (of_head * hs**-0.5).var(dim=1)}


def role_score(weights: Tensor, target: Tensor) -> Tensor:
    """How much more weight than the plain average gives is on the target, of what is possible.

    Args:
        weights: (B, nh, T, T).
        target: (B, T, T), True where key s plays the role for query t; rows without any do not count.

    Returns:
        (nh,), 1 when all weight is there, 0 for the plain average, negative for less.
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


def role_targets(ids: Tensor, chars: list[str]) -> dict[str, Tensor]:
    """(B, T) ids -> role -> (B, T, T), True where key s plays that role for query t; row 0 is left out."""
    B, T = ids.shape
    t = torch.arange(T, device=ids.device)
    query, key = t[:, None], t[None, :]
    earlier = key < query  # (T, T), itself not among them
    letter = torch.tensor([char.isalpha() for char in chars], device=ids.device)[ids]  # (B, T)
    before = torch.cat([letter.new_zeros(B, 1), letter[:, :-1]], dim=1)
    starts = torch.where(letter & ~before, t, -1).cummax(dim=1).values  # (B, T), where the last word began
    newline = torch.tensor([char == "\n" for char in chars], device=ids.device)[ids]  # (B, T)
    return {
        **{role: (key == query - n).expand(B, T, T) for role, n in BACK.items()},
        "itself": (key == query).expand(B, T, T) & (query > 0),
        "first position": (key == 0).expand(B, T, T) & earlier,
        "same character": (ids[:, :, None] == ids[:, None, :]) & earlier,
        "word start": (key == starts[:, :, None]) & earlier,
        "newline": newline[:, None, :] & earlier,
    }
