"""The text that no model has learned from, and the nats of its characters under any model."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids, Nats, Scorer
from bukva.text.passages import Passage, nats_by_last_id, passages, scored_ids
from bukva.text.scores import CharNats, nats_of_chars, text_digest
from bukva.text.splits import Lengths
from bukva.text.tokenizers.base import Tokenizer, count_bytes, first_char


@dataclass(frozen=True)
class HeldOut:
    """The text that no model has learned from, work by work.

    splits: split -> (N,) ids, train too.
    lengths: split -> (n_works,) ids of each work.
    tokenizer: counts the characters of ids.
    """

    splits: dict[str, Ids]
    lengths: dict[str, Lengths]
    tokenizer: Tokenizer

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.tokenizer)

    @property
    def names(self) -> list[str]:
        """val, and test if there is one."""
        return [split for split in self.splits if split != "train"]

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """split -> (n_works,), how many characters of each work are scored."""
        return {split: self.chars_of_works(split, texts) for split, texts in self.scored.items()}

    def passages(self, split: str, n_context: int, share: float = 1) -> list[Passage]:
        """The works of a split, each after n_context ids of its own text (bukva.text.passages)."""
        n_first = first_char(self.tokenizer, self.splits[split])
        return list(passages(self.splits, self.lengths, split, n_context, share, n_first))

    @cached_property
    def scored(self) -> dict[str, list[Passage]]:
        """split -> its works, each after one id of context."""
        return {split: self.passages(split, 1) for split in self.names}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        """split -> how many bytes of UTF-8 the scored characters are."""
        return {split: count_bytes(self.tokenizer, scored_ids(texts)) for split, texts in self.scored.items()}

    def nats(self, scorer: Scorer) -> dict[str, Nats]:
        """split -> (n,) nats of the scored ids, under anything that scores ids by the last one alone."""
        return {split: nats_by_last_id(scorer, texts) for split, texts in self.scored.items()}

    def describe(self) -> dict[str, Any]:
        """What comparisons must know of the text: its alphabet, and the digest of each split."""
        digests = {split: text_digest(self.splits[split], self.tokenizer) for split in self.names}
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
