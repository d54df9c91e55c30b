"""Byte-level BPE: what comes together often in train becomes one id.

It starts from the 256 bytes of UTF-8, and again and again merges the two neighbours that are together most often in
train into one token, until the vocabulary is full. A text is encoded by the same merges in the same order. Nothing is
merged across the end of a line or of a word, with the space before it. Sources: Sennrich, Haddow & Birch 2016, "Neural
Machine Translation of Rare Words with Subword Units"; Radford et al. 2019 (GPT-2), whose rule for words and whose
notation for bytes this is; computed by the library `tokenizers` of Hugging Face.

vocab.json has the merges, from which all else follows. The library's own file could hold more than this class can
promise, such as a normalisation, which loses text.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bukva.text.characters import pieces
from bukva.text.ids import Ids
from bukva.text.tokenizers.base import BYTES, Tokenizer

if TYPE_CHECKING:
    import tokenizers

MIN_FREQUENCY = 2  # what is together once in train says nothing about other text


class BPETokenizer(Tokenizer):
    """Frequent pieces of words as ids: first the bytes, then the tokens in the order in which the merges make them."""

    unit: ClassVar[str] = "token"

    def __init__(self, merges: Iterable[Sequence[str]]) -> None:
        """Take the merges in their order, in GPT-2's notation: a printable character for each byte.

        Raises:
            ValueError: a merge is of something that no earlier one has made.
        """
        from tokenizers import models

        self.merges = [(first, second) for first, second in merges]
        byte_of = dict(zip(_byte_chars(), BYTES, strict=True))
        ids = {char: byte for byte, char in enumerate(byte_of)}  # token -> id
        for first, second in self.merges:
            if first not in ids or second not in ids:
                raise ValueError(f"the merge of {first!r} and {second!r} is not of two tokens before it")
            ids.setdefault(first + second, len(ids))
        super().__init__([b"".join(map(byte_of.__getitem__, token)) for token in ids])
        self._encoder = _library(models.BPE(vocab=ids, merges=self.merges))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "BPETokenizer":
        """Learn at most vocab_size ids; a short text has fewer pairs that come twice, and so fewer ids."""
        from tokenizers import models, trainers

        library = _library(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=MIN_FREQUENCY,
            initial_alphabet=list(_byte_chars()),
            show_progress=False,
        )
        library.train_from_iterator(texts, trainer)
        return cls(json.loads(library.to_str())["model"]["merges"])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bpe", "merges": self.merges}

    def encode(self, text: str) -> Ids:
        # in pieces, because the library takes some 600 bytes for each id; at ends of lines, where nothing is merged
        encoded = (self._encoder.encode(piece).ids for piece in pieces(text, "\n"))
        return np.concatenate([np.empty(0, self.dtype), *(np.array(ids, self.dtype) for ids in encoded)])


def _library(model: "tokenizers.models.Model") -> "tokenizers.Tokenizer":
    """The library's tokenizer: lines, their words, and in each word the merges of the model."""
    from tokenizers import Tokenizer, pre_tokenizers

    library = Tokenizer(model)
    lines = pre_tokenizers.Split("\n", behavior="merged_with_previous")
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([lines, words])
    return library


@functools.cache
def _byte_chars() -> str:
    """256 characters, one for each byte: itself if it is printable, otherwise one of those from U+0100 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))
