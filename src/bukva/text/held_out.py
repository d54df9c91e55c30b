"""Held-out text: the characters that are scored, and the context before them.

The context of a scored character is preceding text of the same work. With split.strategy=tail, the part of a work in
test comes after its part in val, which comes after its part in train. Works that follow each other in a split are not
context for each other, because the end of one work says nothing about the start of the next.
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
    """The part of a work in a split, with preceding text of the same work as context.

    work: row of the work in the table of works.
    ids: (n,) ids of the context and of the scored text.
    n_context: number of ids at the start that are only context; at least 1.
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
    """Return the (N,) nats of the scored ids under a scorer whose context is only the previous id."""
    return np.concatenate([scorer(passage.ids)[passage.n_context - 1 :] for passage in passages])


@dataclass(frozen=True)
class HeldOut:
    """All splits, divided into works.

    splits: split -> (N,) ids, in the order train, val, test.
    lengths: split -> (n_works,) number of ids of each work.
    tokenizer: the tokenizer of the ids.
    ngrams: folder that may contain the n-gram counts of the training split.
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
        """Return the works of a split, each with preceding text of the same work as context. Skip empty works.

        The first character of a split is not scored. If a work has no text before its first id in the split, the
        context is the previous id of the split: the newline at the end of another work.

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
        """split -> its works, each with one id of context."""
        return {split: self.passages(split, 1) for split in self.held_out_splits}

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """split -> (n_works,) number of scored characters of each work."""
        return {split: self.chars_of_works(split, texts) for split, texts in self.scored.items()}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        """split -> number of bytes of the scored characters in UTF-8."""
        return {split: int(self.tokenizer.bytes_of(scored_ids(texts)).sum()) for split, texts in self.scored.items()}

    def describe(self) -> dict[str, Any]:
        """Return the identity of the text for comparisons: its alphabet, and the digest of each held-out split.

        The digests are of the decoded text, so they do not depend on the tokenizer.
        """
        texts = {split: self.tokenizer.decode(self.splits[split]).encode() for split in self.held_out_splits}
        digests = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
        return {"alphabet": self.tokenizer.alphabet, "text": digests}

    def char_nats(self, nats: dict[str, Nats]) -> dict[str, CharNats]:
        """Convert the (n,) nats of the scored ids of each split to (N,) nats of their characters."""
        return {split: self.passage_char_nats(nats[split], texts) for split, texts in self.scored.items()}

    def passage_char_nats(self, nats: Nats, texts: list[Passage]) -> CharNats:
        """Convert the (n,) nats of the scored ids of passages to (N,) nats of their characters."""
        return nats_of_chars(nats, self.tokenizer.chars_of(scored_ids(texts)))

    def chars_of_works(self, split: str, texts: list[Passage]) -> npt.NDArray[np.int64]:
        """Return the (n_works,) number of characters of each work in the scored ids of passages."""
        works = np.repeat([text.work for text in texts], [len(text.scored) for text in texts])  # (n,) work of each id
        chars = np.bincount(works, self.tokenizer.chars_of(scored_ids(texts)), len(self.lengths[split]))
        return chars.astype(np.int64)
