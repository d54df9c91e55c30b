"""Byte-level BPE (byte pair encoding), a tokenizer that gives an id to each frequent sequence of bytes.

The vocabulary starts with the 256 byte values. The most frequent pair of neighboring tokens in the training text is
merged into a new token until the vocabulary is full. A merge never crosses the end of a line or of a word. The space
before a word belongs to the word.

Sources: Sennrich, Haddow & Birch 2016, "Neural Machine Translation of Rare Words with Subword Units"; Radford et al.
2019 (GPT-2) for the definition of words and the notation of bytes. The library `tokenizers` of Hugging Face computes
merges and ids. vocab.json contains only the merges. The library's own file format could contain a normalization, after
which decoding would not restore the text.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bukva.text.ids import Ids
from bukva.text.tokenizers.base import BYTES, Tokenizer

if TYPE_CHECKING:
    import tokenizers

MIN_FREQUENCY = 2  # a pair that occurs only once says nothing about other text
PIECE_CHARS = 1 << 18  # the library needs about 600 bytes per id


class BPETokenizer(Tokenizer):
    """Ids 0 to 255 are the single bytes. The following ids are the merged tokens, in the order of the merges."""

    unit: ClassVar[str] = "token"

    def __init__(self, merges: Iterable[Sequence[str]]) -> None:
        """Create the tokenizer from pairs of tokens in GPT-2's notation, with a printable character for each byte.

        Raises:
            ValueError: a merge uses a token that is neither a byte nor the result of an earlier merge.
        """
        from tokenizers import models

        self.merges = [(first, second) for first, second in merges]
        byte_of = dict(zip(_byte_chars(), BYTES, strict=True))
        ids = {char: byte for byte, char in enumerate(byte_of)}  # token -> id
        for first, second in self.merges:
            if first not in ids or second not in ids:
                raise ValueError(f"the merge of {first!r} and {second!r} uses a token that does not exist yet")
            ids.setdefault(first + second, len(ids))
        super().__init__([b"".join(map(byte_of.__getitem__, token)) for token in ids])
        self._encoder = _library(models.BPE(vocab=ids, merges=self.merges))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "BPETokenizer":
        """Learn a vocabulary of at most `vocab_size` ids. A short text gives fewer."""
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
        encoded = (self._encoder.encode(piece).ids for piece in _pieces(text))
        return np.concatenate([np.empty(0, self.dtype), *(np.array(ids, self.dtype) for ids in encoded)])


def _pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces of at least PIECE_CHARS characters at line ends, which no merge crosses."""
    start = 0
    while start < len(text):
        stop = text.find("\n", start + PIECE_CHARS) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _library(model: "tokenizers.models.Model") -> "tokenizers.Tokenizer":
    from tokenizers import Tokenizer, pre_tokenizers

    library = Tokenizer(model)
    lines = pre_tokenizers.Split("\n", behavior="merged_with_previous")
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.pre_tokenizer = pre_tokenizers.Sequence([lines, words])
    return library


@functools.cache
def _byte_chars() -> str:
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = iter(range(256, 512))
    return "".join(chr(byte if byte in printable else next(others)) for byte in range(256))
