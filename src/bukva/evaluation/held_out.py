"""The text that no model has learned from, and the nats of its characters under any model."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bukva.config.schema import Evaluate
from bukva.core.progress import counting
from bukva.evaluation.characters import CharNats, nats_of_chars
from bukva.models.base import LanguageModel
from bukva.models.window_rule import Score, Watch, nats_of_passages, stride_of
from bukva.text.ids import Ids, Nats, Scorer
from bukva.text.passages import Passage, nats_by_last_id, passages, scored_ids
from bukva.text.splits import Lengths
from bukva.text.tokenizers.base import Tokenizer, count_bytes, count_chars, first_char


@dataclass(frozen=True)
class HeldOut:
    """The text that no model has learned from, and how it is scored.

    splits: split -> (N,) ids, train too.
    lengths: split -> (n_works,) ids of each work.
    tokenizer: counts the characters of ids.
    block_size: of the windows.
    """

    splits: dict[str, Ids]
    lengths: dict[str, Lengths]
    tokenizer: Tokenizer
    block_size: int

    @property
    def names(self) -> list[str]:
        """val, and test if there is one."""
        return [split for split in self.splits if split != "train"]

    @property
    def stride(self) -> int:
        """Of the windows."""
        return stride_of(self.block_size)

    @cached_property
    def chars(self) -> dict[str, npt.NDArray[np.int64]]:
        """split -> (n_works,), how many characters of each work are scored."""
        return {split: self._chars_of_works(split, texts) for split, texts in self.scored.items()}

    def passages(self, split: str, n_context: int, share: float = 1) -> list[Passage]:
        """The works of a split, each after n_context ids of its own text (bukva.text.passages)."""
        n_first = first_char(self.tokenizer, self.splits[split])
        return list(passages(self.splits, self.lengths, split, n_context, share, n_first))

    @cached_property
    def scored(self) -> dict[str, list[Passage]]:
        """split -> its works, each after one id of context."""
        return {split: self.passages(split, 1) for split in self.names}

    @cached_property
    def windowed(self) -> dict[str, list[Passage]]:
        """split -> its works, each after as much context as the window rule takes."""
        return {split: self.passages(split, self.block_size - self.stride + 1) for split in self.names}

    @cached_property
    def n_bytes(self) -> dict[str, int]:
        """split -> how many bytes of UTF-8 the scored characters are."""
        return {split: count_bytes(self.tokenizer, scored_ids(texts)) for split, texts in self.scored.items()}

    def nats(self, scorer: Scorer) -> dict[str, Nats]:
        """split -> (n,) nats of the scored ids, under anything that scores ids by the last one alone."""
        return {split: nats_by_last_id(scorer, texts) for split, texts in self.scored.items()}

    def nats_of_model(
        self, name: str, model: LanguageModel, watch: Mapping[str, Watch] | None = None
    ) -> dict[str, Nats]:
        """split -> (n,) nats of the scored ids by the window rule; the progress has the name of the model.

        watch: split -> what sees its predictions.
        """
        watch = watch or {}
        return {
            split: self._nats_of(f"{name}, {split}", model, texts, watch.get(split))
            for split, texts in self.windowed.items()
        }

    def of_chars(self, nats: dict[str, Nats]) -> dict[str, CharNats]:
        """split -> (n,) nats of the scored ids to (N,) nats of their characters."""
        return {split: self._of_chars(nats[split], texts) for split, texts in self.scored.items()}

    def value_of_context(self, model: LanguageModel, whole: CharNats, split: str, params: Evaluate) -> dict[str, float]:
        """Bits per character with a short context and with whole windows, over the same characters of every work.

        `whole` is (N,), the nats of the split by whole windows.
        """
        share = min(1.0, params.context_chars / count_chars(self.tokenizer, self.splits[split]))
        texts = self.passages(split, params.short_context, share)
        # stride 1 gives every id exactly short_context ids of context
        short = mean(self._of_chars(nats_of_passages(model, texts, params.short_context, 1), texts))
        chars, starts = self.chars[split], np.cumsum(self.chars[split]) - self.chars[split]  # (n_works,) each
        in_work = np.arange(len(whole)) - np.repeat(starts, chars)  # (N,) the place of each character
        full = mean(whole[in_work < np.repeat(self._chars_of_works(split, texts), chars)])
        return {
            "short_context": params.short_context,
            "short_bits_per_char": short.bits_per_char,
            "full_bits_per_char": full.bits_per_char,
            "gain_bits_per_char": short.bits_per_char - full.bits_per_char,
            "chars": full.chars,
        }

    def _nats_of(self, what: str, model: LanguageModel, texts: list[Passage], watch: Watch | None) -> Nats:
        n_ids = sum(len(text.scored) for text in texts)
        with counting(f"evaluate: {what}", n_ids, self.tokenizer.unit) as read:
            return nats_of_passages(model, texts, self.block_size, self.stride, read=read, watch=watch)

    def _of_chars(self, nats: Nats, texts: list[Passage]) -> CharNats:
        """(n,) nats of the scored ids of passages -> (N,) nats of their characters."""
        return nats_of_chars(nats, self.tokenizer.chars_of(scored_ids(texts)))

    def _chars_of_works(self, split: str, texts: list[Passage]) -> npt.NDArray[np.int64]:
        """(n_works,) how many characters of each work the scored ids of passages are."""
        works = np.repeat([text.work for text in texts], [len(text.scored) for text in texts])  # (n,) of the ids
        chars = np.bincount(works, self.tokenizer.chars_of(scored_ids(texts)), len(self.lengths[split]))
        return chars.astype(np.int64)


def mean(nats: CharNats) -> Score:
    """The score of (N,) characters."""
    return Score.of(nats, len(nats))
