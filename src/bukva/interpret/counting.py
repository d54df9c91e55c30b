"""Who predicted a character of a GPT with n-grams, counting or learning: the content of reports/counting/counting.json.

Three predictors score the same characters: the n-grams of the longest order by themselves, the network by itself, which
sees no counts (GPT.alone), and both together. Their gains are log-probabilities over the uniform distribution. The
gain of both together is divided by the Shapley value: what each adds, averaged over who comes first,

    counting = (gain of counts + (gain together - gain of network)) / 2,    learning alike.

Both add up to the gain together, whatever the characters. The share of counting follows in closed form:

    share = 1/2 + (gain of counts - gain of network) / (2 gain together)

It depends on the scores of three predictors that exist, and so not on how the powers of the experts are scaled, nor on
what the network makes of counts that it sees as input: those are part of counting. What both know is divided in half.

Letters as in bukva.models.ngram_memory; N scored ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.config.schema import Evaluate, Training
from bukva.core.errors import BukvaError
from bukva.interpret.heads import AFTER, positions_in_words
from bukva.models.base import LanguageModel
from bukva.models.device import Machine
from bukva.models.gpt import GPT
from bukva.models.ngram_memory import LEAST, Recall
from bukva.models.ngrams.counts import scorers
from bukva.models.registry import build
from bukva.models.window_rule import batches, ids_per_batch, in_order, stride_of
from bukva.text.held_out import HeldOut, Passage, nats_by_last_id, scored_ids
from bukva.text.ids import Ids, bits
from bukva.text.splits import Lengths
from bukva.text.tokenizers.base import Tokenizer
from bukva.training.callback import StopAfter
from bukva.training.parallel import Group
from bukva.training.run import Task, run_training, start
from bukva.training.windows import Windows

Floats = npt.NDArray[np.float64]
LONGEST_WORD = 10  # letters further into a word are counted with this one
PASSAGE = 360  # characters that are drawn
POINTS = 12  # of the training


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
        counted, learned, together = (float(nats.mean()) for nats in (self.counted, self.learned, self.together))
        parts = {
            "counted": counted,
            "learned": learned,
            "together": together,
            "only_counting": learned - together,
            "only_learning": counted - together,
            "common": self.uniform - counted - learned + together,
        }
        counting, gain = float(self.gains()[0].mean()), self.uniform - together
        share = counting / gain if gain > 0 else None
        return {"n": len(self.counted), **{name: bits(nats) for name, nats in parts.items()}, "share": share}


@torch.inference_mode()
def experts_on(gpt: GPT, texts: Sequence[Passage]) -> Experts:
    """What the predictors make of the scored ids of passages, one after the other, by the window rule."""
    T, device, was_training = gpt.block_size, gpt.wte.weight.device, gpt.training
    gpt.eval()
    found, places = [], []
    for batch in batches(texts, T, stride_of(T), ids_per_batch(gpt)):
        values = _experts(gpt, batch.ids.to(device), batch.wanted.to(device))
        found.append([each.double().cpu().numpy() for each in values])
        places.append(batch.places)
    gpt.train(was_training)
    counted, learned, together, contributions, context = (in_order(parts, places) for parts in zip(*found, strict=True))
    uniform = float(np.log(gpt.config.vocab_size))
    return Experts(counted, learned, together, contributions, context.astype(np.int64), uniform)


def _experts(gpt: GPT, windows: Tensor, wanted: Tensor) -> tuple[Tensor, ...]:
    """(B, T + 1) ids, of which n are wanted -> the first five fields of Experts."""
    ids, targets = windows[:, :-1], windows[:, 1:][wanted]  # (B, T), (n,)
    logits, powers, recall = record_experts(gpt, ids, wanted)
    given = targets[:, None, None].expand(-1, powers.shape[1] - 1, 1)
    orders = -recall.probabilities.clamp_min(LEAST).log().gather(-1, given)[..., 0]  # (n, R) nats of the targets
    n_seen = (recall.features[:, : recall.features.shape[1] // 2] > 0).sum(-1)  # (n,) the empty context, too
    return (
        orders[:, -1],
        F.cross_entropy(gpt.alone()(ids, wanted=wanted), targets, reduction="none"),
        F.cross_entropy(logits, targets, reduction="none"),
        powers[:, :-1] * (np.log(gpt.config.vocab_size) - orders),
        n_seen - 1,
    )


def record_experts(gpt: GPT, ids: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Recall]:
    """(B, T) ids, of which n are wanted -> logits, (n, V); powers, (n, R + 1); and what was recalled."""
    recorded: list[tuple[Tensor, Tensor, Recall]] = []
    hook = gpt.experts.register_forward_hook(lambda _, inputs, __: recorded.append(inputs))
    try:
        logits = gpt(ids, wanted=wanted)
    finally:
        hook.remove()
    [(hidden, _, recall)] = recorded
    return logits, gpt.experts.powers(hidden, recall), recall


# ---- the study


@dataclass(frozen=True)
class Counting:
    """The study of one GPT on val, each work after its own text.

    lengths: split -> (n_works,) ids of each work.
    """

    gpt: GPT
    tokenizer: Tokenizer
    splits: dict[str, Ids]
    lengths: dict[str, Lengths]
    machine: Machine

    def study(self, params: Evaluate, recipe: Training) -> dict[str, Any]:
        """All numbers.

        Args:
            params: the number of updates that are repeated, and of windows that are scored after each few of them.
            recipe: of the training that made the GPT.

        Raises:
            BukvaError: the GPT has no n-grams.
        """
        if self.gpt.ngrams is None:
            raise BukvaError(
                "counting: this GPT has no n-grams (model.ngrams none); train one that has: "
                "`dvc exp run -S model.ngrams=input`."
            )
        orders = self.gpt.ngrams.orders
        texts = self.texts()
        experts = experts_on(self.gpt, texts)
        positions = [positions_in_words(self.tokenizer.parts(text.ids))[text.n_context :] for text in texts]
        position, context = np.minimum(np.concatenate(positions), LONGEST_WORD), experts.context
        names = {n: str(n) for n in range(1, LONGEST_WORD)} | {LONGEST_WORD: f"{LONGEST_WORD}+", AFTER: "after"}
        return {
            "unit": self.tokenizer.unit,
            "orders": orders,
            "scores": self.scores(texts, experts),
            "val": experts.summary(),
            "passage": self.passage(texts, experts, orders),
            "by_position": [
                {"position": name, **experts.at(position == n).summary()}
                for n, name in names.items()
                if (position == n).any()
            ],
            "by_context": [{"context": int(n), **experts.at(context == n).summary()} for n in np.unique(context)],
            "training": self.training(params, recipe),
        }

    def texts(self, share: float = 1) -> list[Passage]:
        """The works of val, or a share of each."""
        T = self.gpt.block_size
        return HeldOut(self.splits, self.lengths, self.tokenizer).passages("val", T - stride_of(T) + 1, share)

    def scores(self, texts: list[Passage], experts: Experts) -> dict[str, float]:
        """Bits of a character: the bigram that is counted, the n-grams, the network, and both together."""
        bigram = scorers(self.splits["train"], len(self.tokenizer))["bigram_exact"]
        named = {
            "bigram": nats_by_last_id(bigram, texts),
            "ngrams": experts.counted,
            "network": experts.learned,
            "together": experts.together,
        }
        chars = int(self.tokenizer.chars_of(scored_ids(texts)).sum())
        found = {name: bits(float(nats.sum(dtype=np.float64))) / chars for name, nats in named.items()}
        return {**found, "chars": chars}

    def passage(self, texts: list[Passage], experts: Experts, orders: list[int]) -> dict[str, Any]:
        """The beginning of the longest work of val, from its first new line, with the numbers of each id."""
        longest = max(range(len(texts)), key=lambda i: len(texts[i].scored))
        ids = texts[longest].scored
        lines = [i + 1 for i, part in enumerate(self.tokenizer.parts(ids[: len(ids) // 2])) if part.endswith("\n")]
        first = lines[0] if lines else 0
        ids = ids[first : first + PASSAGE]
        offset = first + sum(len(text.scored) for text in texts[:longest])
        shown = experts.at(slice(offset, offset + len(ids)))
        chars = [
            {
                "char": part,
                "counted": bits(shown.counted[i]),
                "learned": bits(shown.learned[i]),
                "together": bits(shown.together[i]),
                "share": None if np.isnan(share) else float(share),
                "order": orders[int(shown.contributions[i].argmax())],
                "context": int(shown.context[i]),
            }
            for i, (part, share) in enumerate(zip(self.tokenizer.parts(ids), shown.shares(), strict=True))
        ]
        return {"work": texts[longest].work, "chars": chars}

    def training(self, params: Evaluate, recipe: Training) -> dict[str, Any]:
        """The summary of some of val after each few of the first updates, which are repeated, and of the GPT."""
        T, n_steps = self.gpt.block_size, min(params.leak_steps, recipe.n_steps)
        texts = self.texts(min(1.0, params.attention_windows * T / len(self.splits["val"])))
        found: list[dict[str, Any]] = []

        def score(model: LanguageModel, _: Group) -> float:
            found.append(experts_on(model, texts).summary())
            return float(found[-1]["together"])

        recipe = recipe.model_copy(update={"eval_every": max(1, n_steps // POINTS), "patience": 0})
        windows = Windows(self.splits["train"], T, recipe.batch_size, recipe.order, recipe.seed)
        task = Task(lambda: build(self.gpt.config), windows, score, recipe, self.machine)
        state = start(task)
        run_training(task, state, [StopAfter(n_steps)])
        points = [{"step": point.step, **summary} for point, summary in zip(state.curve, found, strict=True)]
        return {"points": points, "trained": experts_on(self.gpt, texts).summary()}
