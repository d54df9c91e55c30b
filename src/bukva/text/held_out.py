"""Determine which characters of val and test are scored, and the text before them in the same work, their context.

The context may lie in an earlier split: with `split.strategy=tail`, a work begins in train and ends in test.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.text.ids import CharNats, Ids, Lengths, Nats, Scorer, nats_of_chars
from bukva.text.tokenizers import Tokenizer, n_first_ids


@dataclass(frozen=True)
class Passage:
    """The part of a work that lies in one split, with earlier text as context."""

    work: int  # row in the table of works
    ids: Ids  # (n,) ids of the context, followed by the ids to score
    n_context: int  # number of ids of the context, at least 1

    @property
    def scored(self) -> Ids:
        return self.ids[self.n_context :]


def scored_ids(passages: Sequence[Passage]) -> Ids:
    """Return the (N,) scored ids of all passages, joined."""
    return np.concatenate([passage.scored for passage in passages])


def nats_by_last_id(scorer: Scorer, passages: Sequence[Passage]) -> Nats:
    """Return the (N,) losses of the scored ids, joined, under a model that uses one previous id."""
    return np.concatenate([scorer(passage.ids)[passage.n_context - 1 :] for passage in passages])


@dataclass(frozen=True)
class HeldOut:
    """The ids of all splits, with what is needed to score the held-out ones. Dicts are by name of the split."""

    splits: dict[str, Ids]  # (N,) ids of each split, in the order train, val, test
    lengths: dict[str, Lengths]
    tokenizer: Tokenizer
    ngrams: Path | None = None  # folder of saved n-gram counts of train; without it, they are counted when needed

    @property
    def held_out_splits(self) -> list[str]:
        return [split for split in self.splits if split != "train"]

    def passages(self, split: str, n_context: int, fraction: float = 1) -> list[Passage]:
        """Return a passage for each work of a split that has text to score, with at most `n_context` ids of context.

        The first character of a split is not scored. If a work has no earlier text, its context is the last id of the
        previous work in this split, usually a newline. Only the first `fraction` of a work is scored.
        """
        n_first = n_first_ids(self.tokenizer, self.splits[split])
        splits = {name: np.asarray(ids) for name, ids in self.splits.items()}  # memory-mapped arrays are slow to slice
        edges = {name: np.concatenate([[0], np.cumsum(self.lengths[name])]) for name in splits}
        earlier = list(splits)[: list(splits).index(split)]
        passages = []
        for work, (start, stop) in enumerate(pairwise(edges[split].tolist())):
            first = max(start, n_first)
            if first >= stop:
                continue
            before = [splits[name][slice(*edges[name][work : work + 2])][-n_context:] for name in earlier]
            context = np.concatenate([*before, splits[split][start:first]])[-n_context:]
            context = context if len(context) else splits[split][start - 1 : start]
            own = splits[split][first : first + math.ceil((stop - first) * fraction)]
            passages.append(Passage(work, np.concatenate([context, own]), len(context)))
        return passages

    @cached_property
    def scored(self) -> dict[str, list[Passage]]:
        return {split: self.passages(split, n_context=1) for split in self.held_out_splits}

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """The (n_works,) numbers of scored characters of the works, by name of the split."""
        return {split: self.chars_of_works(split, texts) for split, texts in self.scored.items()}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        return {split: int(self.tokenizer.bytes_of(scored_ids(texts)).sum()) for split, texts in self.scored.items()}

    def describe(self) -> dict[str, Any]:
        """Return the alphabet, and digests of the held-out texts. If they differ, experiments cannot be compared."""
        texts = {split: self.tokenizer.decode(self.splits[split]).encode() for split in self.held_out_splits}
        digests = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
        return {"alphabet": self.tokenizer.alphabet, "text": digests}

    def char_nats(self, nats: dict[str, Nats]) -> dict[str, CharNats]:
        """Convert the (n,) losses of scored ids to the (N,) losses of scored characters, by name of the split."""
        return {split: self.passage_char_nats(nats[split], texts) for split, texts in self.scored.items()}

    def passage_char_nats(self, nats: Nats, texts: list[Passage]) -> CharNats:
        """Convert the (n,) losses of the scored ids of passages to the (N,) losses of their scored characters."""
        return nats_of_chars(nats, self.tokenizer.chars_of(scored_ids(texts)))

    def chars_of_works(self, split: str, texts: list[Passage]) -> npt.NDArray[np.int64]:
        """Return the (n_works,) number of scored characters of each work in passages of the split `split`."""
        works = np.repeat([text.work for text in texts], [len(text.scored) for text in texts])  # (n,) work of each id
        chars = np.bincount(works, self.tokenizer.chars_of(scored_ids(texts)), len(self.lengths[split]))
        return chars.astype(np.int64)
