"""Who predicted a character of a GPT with n-grams: counting, or learning?

Three predictors score the same characters: the n-grams of the longest order by themselves, the network by itself, which
sees no counts (GPT.alone), and both together. Their gains are log-probabilities over the uniform distribution. The
gain of both together is divided by the Shapley value: what each adds, averaged over who comes first,

    counting = (gain of counts + (gain together - gain of network)) / 2,    learning alike.

Both add up to the gain together, whatever the characters. The share of counting follows in closed form:

    share = 1/2 + (gain of counts - gain of network) / (2 gain together)

It depends on the scores of three predictors that exist, and so not on how the powers of the experts are scaled, nor on
what the network makes of counts that it sees as input: those are part of counting. What both know is divided in half.

Where the powers decide (which order contributed most to a character), it is the power of an order times its gain.

Letters as in bukva.models.ngram_memory; N scored ids.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.interpret.hooks import record_experts
from bukva.models.gpt import GPT
from bukva.models.window_rule import ids_per_batch, stride_of
from bukva.text.ids import bits
from bukva.text.passages import Passage

Floats = npt.NDArray[np.float64]
LONGEST_WORD = 10  # letters further into a word are counted with this one
BETWEEN, AFTER = 0, -1  # positions in a word of what is not a letter


@dataclass(frozen=True)
class Experts:
    """What the predictors made of N scored ids.

    counted, learned, together: (N,) nats under the longest order, the network, and both.
    contributions: (N, R), the power of each order times its gain, in nats.
    context: (N,) the longest context that train has, in ids, of those that the GPT looks up.
    uniform: nats of an id if all are equally likely.
    """

    counted: Floats
    learned: Floats
    together: Floats
    contributions: Floats
    context: npt.NDArray[np.int64]
    uniform: float

    def at(self, where: Any) -> "Experts":
        """Those of some ids: a slice, or (N,) booleans."""
        arrays = {field.name: getattr(self, field.name)[where] for field in fields(self) if field.name != "uniform"}
        return replace(self, **arrays)

    def gains(self) -> tuple[Floats, Floats]:
        """(N,), (N,) nats that counting and learning contribute to the gain over uniform: Shapley values."""
        counted, learned, together = (self.uniform - nats for nats in (self.counted, self.learned, self.together))
        return (counted + together - learned) / 2, (learned + together - counted) / 2

    def shares(self) -> Floats:
        """(N,) shares of counting, within 0 to 1; NaN where both together are no better than uniform."""
        counting, learning = self.gains()
        gain = counting + learning
        return np.clip(np.divide(counting, gain, out=np.full(len(gain), np.nan), where=gain > 0), 0, 1)

    def summary(self) -> dict[str, Any]:
        """Means over the ids, in bits, and the share of counting in all of their gain.

        only_counting, only_learning and common: what is lost without the one, without the other, and the rest of the
        gain, which either of them knows.
        """
        counting, learning = (float(gains.mean()) for gains in self.gains())
        counted, learned, together = (
            float(nats.mean()) for nats in (self.counted, self.learned, self.together)
        )  # nats of an id
        parts = {
            "counted": counted,
            "learned": learned,
            "together": together,
            "only_counting": learned - together,
            "only_learning": counted - together,
            "common": self.uniform - counted - learned + together,
        }
        share = counting / (counting + learning) if counting + learning > 0 else None
        return {"n": len(self.counted), **{name: bits(nats) for name, nats in parts.items()}, "share": share}


class _Window(NamedTuple):
    """T + 1 ids, and which of the last T are scored."""

    ids: npt.NDArray[np.int64]
    is_scored: npt.NDArray[np.bool_]


@torch.inference_mode()
def experts_on(gpt: GPT, texts: Sequence[Passage]) -> Experts:
    """What the predictors make of the scored ids of passages, one after the other, by the window rule."""
    windows = [window for text in texts for window in _windows(text, gpt.block_size)]
    device, was_training = gpt.wte.weight.device, gpt.training
    gpt.eval()
    found = []
    per_batch = max(1, ids_per_batch(gpt) // gpt.block_size)
    for start in range(0, len(windows), per_batch):
        batch = windows[start : start + per_batch]
        ids = torch.from_numpy(np.stack([window.ids for window in batch])).to(device)  # (B, T + 1)
        is_scored = torch.from_numpy(np.stack([window.is_scored for window in batch])).to(device)  # (B, T)
        found.append([values[is_scored].double().cpu().numpy() for values in _experts(gpt, ids)])
    gpt.train(was_training)
    counted, learned, together, contributions, context = (np.concatenate(parts) for parts in zip(*found, strict=True))
    uniform = float(np.log(gpt.config.vocab_size))
    return Experts(counted, learned, together, contributions, context.astype(np.int64), uniform)


def positions_in_words(parts: Iterable[str]) -> list[int]:
    """For each part of a text: 1 where a word begins, 2 for the next part of it and so on; AFTER right after a word.

    BETWEEN otherwise. Parts are characters, or what a tokenizer makes of them (Tokenizer.parts): one that begins with a
    space begins a word, and an empty one, a later byte of a character, belongs to the part before it.
    """
    positions, within = [], 0
    for part in parts:
        before = within
        is_within = any(map(str.isalpha, part)) or (before > 0 and not part)
        within = is_within * (1 if part[:1].isspace() else before + 1)
        positions.append(within or (AFTER if before else BETWEEN))
    return positions


def _windows(text: Passage, block_size: int) -> list[_Window]:
    """Windows of a passage by the rule of bukva.models.window_rule, the last one filled up with zeros."""
    T, stride = block_size, stride_of(block_size)
    ids = np.concatenate([text.ids, np.zeros(T, text.ids.dtype)]).astype(np.int64)
    windows = []
    for start in range(0, max(1, len(text.ids) - 1 - T + stride), stride):
        at = np.arange(start + 1, start + T + 1)  # of the targets
        first = max(text.n_context, start + T - stride + 1 if start else 1)
        windows.append(_Window(ids[start : start + T + 1], (first <= at) & (at < len(text.ids))))
    return windows


def _experts(gpt: GPT, windows: Tensor) -> tuple[Tensor, ...]:
    """(B, T + 1) ids -> counted, learned and together, each (B, T); contributions, (B, T, R); context, (B, T)."""
    ids, targets = windows[:, :-1], windows[:, 1:]
    mixed = record_experts(gpt, ids)
    given = targets[..., None, None].expand(-1, -1, mixed.counted.shape[2], 1)
    orders = -mixed.counted.gather(-1, given)[..., 0]  # (B, T, R) nats of the targets
    gains = np.log(gpt.config.vocab_size) - orders
    return (
        orders[..., -1],
        _nats(gpt.alone()(ids), targets),
        _nats(mixed.logits, targets),
        mixed.powers[..., :-1] * gains,
        (mixed.seen > 0).sum(-1) - 1,  # the empty context is always seen
    )


def _nats(logits: Tensor, targets: Tensor) -> Tensor:
    """(B, T, V) logits, (B, T) ids -> (B, T) nats."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none").view_as(targets)
