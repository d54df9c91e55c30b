"""Who predicted what, counting or learning: the content of reports/counting/counting.json."""

from typing import Any

import numpy as np

from bukva.config.schema import Evaluate, Training
from bukva.core.errors import BukvaError
from bukva.interpret.experts import AFTER, LONGEST_WORD, Experts, experts_on, positions_in_words
from bukva.models.base import LanguageModel
from bukva.models.device import Machine
from bukva.models.gpt import GPT
from bukva.models.ngrams.counts import scorers
from bukva.models.registry import build
from bukva.models.window_rule import stride_of
from bukva.text.ids import Ids, bits
from bukva.text.passages import Passage, nats_by_last_id, passages, scored_ids
from bukva.text.splits import Lengths
from bukva.text.tokenizers.base import Tokenizer, first_char
from bukva.training.callback import StopAfter
from bukva.training.parallel import Group
from bukva.training.run import Task, run_training, start
from bukva.training.windows import Windows

PASSAGE = 360  # characters that are drawn
POINTS = 12  # of the training


class Counting:
    """The study of one GPT on val, each work after its own text."""

    def __init__(
        self, gpt: GPT, tokenizer: Tokenizer, splits: dict[str, Ids], lengths: dict[str, Lengths], machine: Machine
    ) -> None:
        if gpt.ngrams is None:
            raise BukvaError(
                "counting: this GPT has no n-grams (model.ngrams none); train one that has: "
                "`dvc exp run -S model.ngrams=input`."
            )
        self.gpt, self.tokenizer, self.splits, self.lengths, self.machine = gpt, tokenizer, splits, lengths, machine
        self.orders = gpt.ngrams.orders

    def study(self, params: Evaluate, recipe: Training) -> dict[str, Any]:
        """All numbers.

        Args:
            params: the number of updates that are repeated, and of windows that are scored after each few of them.
            recipe: of the training that made the GPT.
        """
        texts = self.texts()
        experts = experts_on(self.gpt, texts)
        return {
            "unit": self.tokenizer.unit,
            "orders": self.orders,
            "scores": self.scores(texts, experts),
            "val": experts.summary(),
            "passage": self.passage(texts, experts),
            "by_position": self.by_position(texts, experts),
            "by_context": self.by_context(experts),
            "training": self.training(params, recipe),
        }

    def texts(self, share: float = 1) -> list[Passage]:
        """The works of val, or a share of each."""
        T = self.gpt.block_size
        seen = {split: self.splits[split] for split in ("train", "val")}
        n_first = first_char(self.tokenizer, seen["val"])
        return list(passages(seen, self.lengths, "val", T - stride_of(T) + 1, share, n_first))

    def scores(self, texts: list[Passage], experts: Experts) -> dict[str, float]:
        """Bits of a character: the bigram that is counted, the n-grams, the network, and both together."""
        bigram = scorers(self.splits["train"], len(self.tokenizer))["bigram_exact"]
        counted = nats_by_last_id(bigram, texts)
        named = {
            "bigram": counted,
            "ngrams": experts.counted,
            "network": experts.learned,
            "together": experts.together,
        }
        chars = int(self.tokenizer.chars_of(scored_ids(texts)).sum())
        found = {name: bits(float(nats.sum(dtype=np.float64))) / chars for name, nats in named.items()}
        return {"uniform": bits(experts.uniform), **found, "chars": chars}

    def passage(self, texts: list[Passage], experts: Experts) -> dict[str, Any]:
        """The beginning of the longest work of val, from its first new line, id by id."""
        longest = max(range(len(texts)), key=lambda i: len(texts[i].scored))
        offset = sum(len(text.scored) for text in texts[:longest])
        ids = texts[longest].scored
        lines = [i + 1 for i, part in enumerate(self.tokenizer.parts(ids[: len(ids) // 2])) if part.endswith("\n")]
        first = lines[0] if lines else 0
        span = slice(offset + first, offset + min(first + PASSAGE, len(ids)))
        return {"work": texts[longest].work, "chars": self.describe(ids[first : first + PASSAGE], experts.at(span))}

    def describe(self, ids: Ids, experts: Experts) -> list[dict[str, Any]]:
        """For each of (n,) ids: the bits of each predictor, the share of counting, the order and the context."""
        counting, learning = experts.gains()
        parts = self.tokenizer.parts(ids)
        return [
            {
                "char": parts[i],
                "counted": bits(experts.counted[i]),
                "learned": bits(experts.learned[i]),
                "together": bits(experts.together[i]),
                "counting": bits(counting[i]),
                "learning": bits(learning[i]),
                "share": None if np.isnan(share) else float(share),
                "order": self.orders[int(experts.contributions[i].argmax())],
                "context": int(experts.context[i]),
            }
            for i, share in enumerate(experts.shares())
        ]

    def by_position(self, texts: list[Passage], experts: Experts) -> list[dict[str, Any]]:
        """The summary of the first letters of words, the second and so on, and of what comes right after words."""
        positions = np.concatenate(
            [positions_in_words(self.tokenizer.parts(text.ids))[text.n_context :] for text in texts]
        )
        positions = np.minimum(positions, LONGEST_WORD)
        found = [(str(n), positions == n) for n in range(1, LONGEST_WORD)]
        found += [(f"{LONGEST_WORD}+", positions == LONGEST_WORD), ("after", positions == AFTER)]
        return [{"position": name, **experts.at(where).summary()} for name, where in found if where.any()]

    def by_context(self, experts: Experts) -> list[dict[str, Any]]:
        """The summary by the longest context that train has."""
        return [{"context": int(n), **experts.at(experts.context == n).summary()} for n in np.unique(experts.context)]

    def training(self, params: Evaluate, recipe: Training) -> dict[str, Any]:
        """The summary of some of val after each few of the first updates, which are repeated, and of the GPT."""
        T, n_steps = self.gpt.block_size, min(params.leak_steps, recipe.n_steps)
        texts = self.texts(min(1.0, params.attention_windows * T / len(self.splits["val"])))
        found: list[dict[str, Any]] = []

        def score(model: LanguageModel, _: Group) -> float:
            experts = experts_on(model, texts)
            found.append(experts.summary())
            return float(experts.together.mean())

        recipe = recipe.model_copy(update={"eval_every": max(1, n_steps // POINTS), "patience": 0})
        windows = Windows(self.splits["train"], T, recipe.batch_size, recipe.order, recipe.seed)
        task = Task(lambda: build(self.gpt.config), windows, score, recipe, self.machine)
        state = start(task)
        run_training(task, state, [StopAfter(n_steps)])
        points = [{"step": point.step, **summary} for point, summary in zip(state.curve, found, strict=True)]
        return {"points": points, "trained": experts_on(self.gpt, texts).summary()}
