"""Determine which characters of val and test are scored, and what their context is.

The context of a scored character is the text before it in the same work. The end of one work says nothing about the
start of the next work, so other works are not part of the context. The context may lie in an earlier split: with
`split.strategy=tail`, a work begins in train, continues in val, and ends in test.
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
    """The part of a work that lies in one split, with earlier text as context.

    work: row of the work in the table of works.
    ids: (n,) ids of the context, followed by the ids to score.
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
    """Return the (N,) losses in nats of the scored ids of all passages, joined.

    `scorer` must be a model that uses only the previous id as context, because a passage may have only one id of
    context.
    """
    return np.concatenate([scorer(passage.ids)[passage.n_context - 1 :] for passage in passages])


@dataclass(frozen=True)
class HeldOut:
    """The ids of all splits, and the number of ids of each work in each split.

    splits: (N,) ids of each split, by name of the split, in the order train, val, test.
    lengths: (n_works,) number of ids of each work in a split, by name of the split.
    tokenizer: the tokenizer that encoded the text.
    ngrams: folder in which the n-gram counts of the training split may be saved. If it is `None` or contains no counts,
        the n-grams are counted when they are needed.
    """

    splits: dict[str, Ids]
    lengths: dict[str, Lengths]
    tokenizer: Tokenizer
    ngrams: Path | None = None

    @property
    def held_out_splits(self) -> list[str]:
        """Names of the held-out splits: val, and test if the corpus has a test split."""
        return [split for split in self.splits if split != "train"]

    def passages(self, split: str, n_context: int, fraction: float = 1) -> list[Passage]:
        """Return a passage for each work of a split: the text to score, with the text before it as context.

        The first character of a split is not scored, and works without text to score are left out. The context may come
        from an earlier split. If a work has no earlier text, its context is one id: the last id of the previous work in
        this split, which is usually a newline.

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
        """The passages of each held-out split, by name of the split. Each passage has one id of context."""
        return {split: self.passages(split, 1) for split in self.held_out_splits}

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """The (n_works,) number of scored characters of each work, by name of the held-out split."""
        return {split: self.chars_of_works(split, texts) for split, texts in self.scored.items()}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        """The number of UTF-8 bytes of all scored characters, by name of the held-out split."""
        return {split: int(self.tokenizer.bytes_of(scored_ids(texts)).sum()) for split, texts in self.scored.items()}

    def describe(self) -> dict[str, Any]:
        """Return a description that identifies the held-out text.

        Experiments can be compared only if their descriptions are equal. The key `alphabet` has the alphabet of the
        tokenizer. The key `text` has a digest of the text of each held-out split, by name of the split. A digest is
        computed from the decoded text, so it does not depend on the tokenizer.
        """
        texts = {split: self.tokenizer.decode(self.splits[split]).encode() for split in self.held_out_splits}
        digests = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
        return {"alphabet": self.tokenizer.alphabet, "text": digests}

    def char_nats(self, nats: dict[str, Nats]) -> dict[str, CharNats]:
        """Convert the losses of scored ids to losses of scored characters.

        `nats` has the (n,) losses in nats of the ids, by name of the held-out split. The result has the (N,) losses in
        nats of the characters, also by name of the split.
        """
        return {split: self.passage_char_nats(nats[split], texts) for split, texts in self.scored.items()}

    def passage_char_nats(self, nats: Nats, texts: list[Passage]) -> CharNats:
        """Convert the losses of the scored ids of passages to losses of their scored characters.

        `nats` has the (n,) losses of the ids in nats. The result has the (N,) losses of the characters in nats.
        """
        return nats_of_chars(nats, self.tokenizer.chars_of(scored_ids(texts)))

    def chars_of_works(self, split: str, texts: list[Passage]) -> npt.NDArray[np.int64]:
        """Return the (n_works,) number of scored characters of each work in passages of the split `split`."""
        works = np.repeat([text.work for text in texts], [len(text.scored) for text in texts])  # (n,) work of each id
        chars = np.bincount(works, self.tokenizer.chars_of(scored_ids(texts)), len(self.lengths[split]))
        return chars.astype(np.int64)
