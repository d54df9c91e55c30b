"""Determine which characters of val and test are scored, and what their context is.

The context of a scored character is the text before it in the same work. The end of one work says nothing about the
start of the next work, so a work is not context for another work. The context may lie in an earlier split: with
split.strategy=tail, a work begins in train, continues in val, and ends in test.
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

from bukva.text.ids import CharNats, Ids, Nats, Scorer, nats_of_chars
from bukva.text.splits import Lengths
from bukva.text.tokenizers.base import Tokenizer, n_first_ids


@dataclass(frozen=True)
class Passage:
    """The part of a work that lies in one split, with the text before it as context.

    work: row of the work in the table of works.
    ids: (n,) ids of the context, then of the text to score.
    n_context: number of ids of the context, at least 1. They are not scored.
    """

    work: int
    ids: Ids
    n_context: int

    @property
    def scored(self) -> Ids:
        """The (n - n_context,) ids that are scored."""
        return self.ids[self.n_context :]


def scored_ids(passages: Sequence[Passage]) -> Ids:
    """Return the (N,) scored ids of all passages, joined."""
    return np.concatenate([passage.scored for passage in passages])


def nats_by_last_id(scorer: Scorer, passages: Sequence[Passage]) -> Nats:
    """Return the (N,) nats that a scorer gives to the scored ids of all passages, joined.

    `scorer` must not need more context than the previous id, because a passage may have only one id of context.
    """
    return np.concatenate([scorer(passage.ids)[passage.n_context - 1 :] for passage in passages])


@dataclass(frozen=True)
class HeldOut:
    """The ids of all splits, and the number of ids of each work in each split.

    splits: split -> (N,) ids, in the order train, val, test.
    lengths: split -> (n_works,) number of ids of each work in this split.
    tokenizer: the tokenizer that encoded the text.
    ngrams: folder in which the n-gram counts of the training split may be saved. If `None`, or if the folder has no
        counts, the n-grams are counted when they are needed.
    """

    splits: dict[str, Ids]
    lengths: dict[str, Lengths]
    tokenizer: Tokenizer
    ngrams: Path | None = None

    @property
    def held_out_splits(self) -> list[str]:
        """Names of the held-out splits: val, and test if there is one."""
        return [split for split in self.splits if split != "train"]

    def passages(self, split: str, n_context: int, fraction: float = 1) -> list[Passage]:
        """Return a passage for each work of a split, with text before it in the same work as context.

        Works without text to score are left out. The first character of a split is not scored. The context may come
        from an earlier split. A work that has no earlier text gets one id of context: the last id of the work before it
        in this split, which is usually a newline.

        Args:
            split: name of the split to score.
            n_context: maximum number of ids of context; at least 1.
            fraction: fraction of each work to score, from its start in the split.
        """
        n_first = n_first_ids(self.tokenizer, self.splits[split])
        # as plain arrays, because slices of memory-mapped arrays are much slower
        splits = {name: np.asarray(ids) for name, ids in self.splits.items()}
        edges = {name: np.concatenate([[0], np.cumsum(self.lengths[name])]) for name in splits}
        earlier = list(splits)[: list(splits).index(split)]
        passages = []
        for work, (start, stop) in enumerate(pairwise(edges[split].tolist())):
            first = max(start, n_first)
            if first >= stop:
                continue
            before = [splits[name][slice(*edges[name][work : work + 2])][-n_context:] for name in earlier]
            own = np.concatenate([*before, splits[split][start:first]])[-n_context:]
            context = own if len(own) else splits[split][start - 1 : start]
            end = first + math.ceil((stop - first) * fraction)
            passages.append(Passage(work, np.concatenate([context, splits[split][first:end]]), len(context)))
        return passages

    @cached_property
    def scored(self) -> dict[str, list[Passage]]:
        """Held-out split -> passages of its works, each with one id of context."""
        return {split: self.passages(split, 1) for split in self.held_out_splits}

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """Held-out split -> (n_works,) number of scored characters of each work."""
        return {split: self.chars_of_works(split, texts) for split, texts in self.scored.items()}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        """Held-out split -> number of bytes of its scored characters in UTF-8."""
        return {split: int(self.tokenizer.bytes_of(scored_ids(texts)).sum()) for split, texts in self.scored.items()}

    def describe(self) -> dict[str, Any]:
        """Return the identity of the held-out text. Experiments can be compared only if this identity is equal.

        The keys are `alphabet`, the alphabet of the tokenizer, and `text`, a dict of held-out split -> digest of its
        text. A digest is computed from the decoded text, so it does not depend on the tokenizer.
        """
        texts = {split: self.tokenizer.decode(self.splits[split]).encode() for split in self.held_out_splits}
        digests = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
        return {"alphabet": self.tokenizer.alphabet, "text": digests}

    def char_nats(self, nats: dict[str, Nats]) -> dict[str, CharNats]:
        """Return held-out split -> (N,) nats of its scored characters, from the (n,) nats of its scored ids."""
        return {split: self.passage_char_nats(nats[split], texts) for split, texts in self.scored.items()}

    def passage_char_nats(self, nats: Nats, texts: list[Passage]) -> CharNats:
        """Return the (N,) nats of the scored characters of passages, from the (n,) nats of their scored ids."""
        return nats_of_chars(nats, self.tokenizer.chars_of(scored_ids(texts)))

    def chars_of_works(self, split: str, texts: list[Passage]) -> npt.NDArray[np.int64]:
        """Return the (n_works,) number of scored characters of each work, for passages of one split."""
        works = np.repeat([text.work for text in texts], [len(text.scored) for text in texts])  # (n,) work of each id
        chars = np.bincount(works, self.tokenizer.chars_of(scored_ids(texts)), len(self.lengths[split]))
        return chars.astype(np.int64)
