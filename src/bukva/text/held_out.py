"""The text that no model has learned from: which characters are scored, and what stands before them.

Before a scored character stands the own text of its work. Under split `tail` a work's share of test follows its share
of val, which follows its share of train. Where works follow one another in a split, the end of one says nothing about
the start of the next.
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
    """A work's share of a split, after its own preceding text.

    work: its row in the document table.
    ids: (n,), of which the first n_context are context only.
    n_context: at least 1.
    """

    work: int
    ids: Ids
    n_context: int

    @property
    def scored(self) -> Ids:
        """(n - n_context,) the ids that are scored."""
        return self.ids[self.n_context :]


def scored_ids(passages: Sequence[Passage]) -> Ids:
    """(N,) the scored ids of passages, one passage after the other."""
    return np.concatenate([passage.scored for passage in passages])


def nats_by_last_id(scorer: Scorer, passages: Sequence[Passage]) -> Nats:
    """(N,) the nats of the scored ids, under a scorer that sees the last id alone."""
    return np.concatenate([scorer(passage.ids)[passage.n_context - 1 :] for passage in passages])


@dataclass(frozen=True)
class HeldOut:
    """The splits, work by work.

    splits: split -> (N,) ids, in the order train, val, test.
    lengths: split -> (n_works,) ids of each work.
    tokenizer: counts the characters of ids.
    ngrams: folder that may hold the counts of train.
    """

    splits: dict[str, Ids]
    lengths: dict[str, Lengths]
    tokenizer: Tokenizer
    ngrams: Path | None = None

    @property
    def names(self) -> list[str]:
        """val, and test if there is one."""
        return [split for split in self.splits if split != "train"]

    def passages(self, split: str, n_context: int, share: float = 1) -> list[Passage]:
        """The works of a split, each with at most n_context ids of its own text before it; no works without text.

        The first character of a split is not scored. The first id of a work, which has no text of its own before it,
        has the id that stands before it in the split: the newline that ends another work.

        Args:
            split: the one to score.
            n_context: at least 1.
            share: score only this share of each work, from its start in the split.
        """
        n_first = n_first_ids(self.tokenizer, self.splits[split])
        splits = {name: np.asarray(ids) for name, ids in self.splits.items()}  # slices of mapped arrays cost much more
        edges = {name: np.concatenate([[0], np.cumsum(self.lengths[name])]) for name in splits}
        earlier = list(splits)[: list(splits).index(split)]
        found = []
        for work, (start, stop) in enumerate(pairwise(edges[split].tolist())):
            first = max(start, n_first)
            if first >= stop:
                continue
            before = [splits[name][slice(*edges[name][work : work + 2])][-n_context:] for name in earlier]
            own = np.concatenate([*before, splits[split][start:first]])[-n_context:]
            context = own if len(own) else splits[split][start - 1 : start]
            end = first + math.ceil((stop - first) * share)
            found.append(Passage(work, np.concatenate([context, splits[split][first:end]]), len(context)))
        return found

    @cached_property
    def scored(self) -> dict[str, list[Passage]]:
        """split -> its works, each after one id of context."""
        return {split: self.passages(split, 1) for split in self.names}

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """split -> (n_works,), how many characters of each work are scored."""
        return {split: self.chars_of_works(split, texts) for split, texts in self.scored.items()}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        """split -> how many bytes of UTF-8 the scored characters are."""
        return {split: int(self.tokenizer.bytes_of(scored_ids(texts)).sum()) for split, texts in self.scored.items()}

    def describe(self) -> dict[str, Any]:
        """What comparisons must know of the text: its alphabet, and the digest of each split, whatever an id is."""
        texts = {split: self.tokenizer.decode(self.splits[split]).encode() for split in self.names}
        digests = {split: hashlib.sha256(text).hexdigest() for split, text in texts.items()}
        return {"alphabet": self.tokenizer.alphabet, "text": digests}

    def of_chars(self, nats: dict[str, Nats]) -> dict[str, CharNats]:
        """split -> (n,) nats of the scored ids to (N,) nats of their characters."""
        return {split: self.chars_of_nats(nats[split], texts) for split, texts in self.scored.items()}

    def chars_of_nats(self, nats: Nats, texts: list[Passage]) -> CharNats:
        """(n,) nats of the scored ids of passages -> (N,) nats of their characters."""
        return nats_of_chars(nats, self.tokenizer.chars_of(scored_ids(texts)))

    def chars_of_works(self, split: str, texts: list[Passage]) -> npt.NDArray[np.int64]:
        """(n_works,) how many characters of each work the scored ids of passages are."""
        works = np.repeat([text.work for text in texts], [len(text.scored) for text in texts])  # (n,) of the ids
        chars = np.bincount(works, self.tokenizer.chars_of(scored_ids(texts)), len(self.lengths[split]))
        return chars.astype(np.int64)
