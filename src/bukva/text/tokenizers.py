"""Tokenizers, which convert text to ids and back. The keys of TOKENIZERS are the values of `tokenize.kind`.

Each id represents a sequence of UTF-8 bytes. A character is counted for the id that contains its first byte. Ids whose
bytes are not valid UTF-8, which a model may generate, are decoded as U+FFFD, the replacement character.
"""

import functools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.text.characters import code_points, describe, from_code_points
from bukva.text.ids import Ids

if TYPE_CHECKING:
    import tokenizers

VOCAB = "vocab.json"  # file in the folder of the ids, and in the folder of each model
CHUNK = 2**20  # number of characters or ids that are converted at a time, because numpy makes 64-bit indices of them
MOST_BYTES = 4  # maximum number of UTF-8 bytes of a character; each byte can have its own id
MAX_NAMED = 5  # number of unknown characters that an error lists
MIN_FREQUENCY = 2  # a pair that occurs only once says nothing about other text
PIECE_CHARS = 1 << 18  # the BPE library needs about 600 bytes per id, so it encodes pieces of about this size
BYTES = [bytes([value]) for value in range(256)]

Counts = npt.NDArray[np.int64]


class Tokenizer(ABC):
    unit: ClassVar[str]  # what an id represents: "character", "byte" or "token"
    alphabet: str | None = None  # the characters that can be encoded, sorted, or None for all

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self.tokens = list(tokens)  # the bytes of each of the V ids
        texts = [token.decode(errors="backslashreplace") for token in tokens]
        # the text of each of the V ids, in which control characters and incomplete characters are escaped, as in \xd0
        self.pieces = [text if text.isprintable() or text in ("\n", "\t") else ascii(text)[1:-1] for text in texts]
        self.dtype: np.dtype[np.unsignedinteger] = np.dtype(np.min_scalar_type(max(len(tokens) - 1, 0)))
        self._n_bytes = np.array([len(token) for token in tokens], np.int64)  # (V,)
        self._n_chars = np.array([_begins(token).sum() for token in tokens], np.int64)  # (V,)

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Learn the vocabulary of texts in any order. Only the tokenizer `bpe` uses the maximum `vocab_size`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the content of vocab.json: the arguments of the constructor, and `kind` unless it is `char`."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Return the (n,) ids of a text, or raise a BukvaError that names the characters that cannot be encoded."""

    def __len__(self) -> int:
        return len(self.tokens)

    def decode(self, ids: npt.ArrayLike) -> str:
        return self.utf8(ids).decode(errors="replace")

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        return b"".join(map(self.tokens.__getitem__, np.asarray(ids, np.int64).tolist()))

    def chars_of(self, ids: npt.ArrayLike) -> Counts:
        """Return the number of characters that begin in each of (n,) ids. Scores are divided by their sum."""
        return self._n_chars[np.asarray(ids, np.int64)]

    def bytes_of(self, ids: npt.ArrayLike) -> Counts:
        return self._n_bytes[np.asarray(ids, np.int64)]

    def texts_of(self, ids: npt.ArrayLike) -> list[str]:
        """Return the characters that begin in each of (n,) ids. Joined, they are the text of the ids."""
        utf8, n_bytes = self.utf8(ids), self.bytes_of(ids)
        owner = np.repeat(np.arange(len(n_bytes)), n_bytes)  # which of the n ids contains each byte
        begins = _begins(utf8)
        begins[:1] = True  # the ids may begin within a character
        texts = [""] * len(n_bytes)
        for start, stop in pairwise([*np.flatnonzero(begins).tolist(), len(utf8)]):
            texts[owner[start]] += utf8[start:stop].decode(errors="replace")
        return texts

    def can_encode(self, char: str) -> bool:
        return self.alphabet is None or char in self.alphabet


def _begins(utf8: bytes) -> npt.NDArray[np.bool_]:
    """Return whether each of (n,) bytes is the first byte of a character. All other bytes are 10xxxxxx in binary."""
    return np.frombuffer(utf8, np.uint8) & 0b11000000 != 0b10000000


class CharTokenizer(Tokenizer):
    """Tokenizer of the lecture notes. Each character has an id, in the order of code points."""

    unit: ClassVar[str] = "character"

    def __init__(self, chars: Sequence[str]) -> None:
        if any(len(char) != 1 for char in chars) or list(chars) != sorted(set(chars)):
            raise ValueError("an alphabet must be a sorted list of single characters without duplicates")
        super().__init__([char.encode() for char in chars])
        self.chars = self.pieces = list(chars)
        self.alphabet: str = "".join(chars)
        self._codes = code_points(self.alphabet)  # (V,)
        n_codes = int(self._codes[-1]) + 2 if chars else 1  # the last entry is for all greater code points
        self._ids = np.full(n_codes, len(self), np.min_scalar_type(len(self)))  # code point -> id, or V if unknown
        self._ids[self._codes] = np.arange(len(self))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int = 0) -> "CharTokenizer":  # noqa: ARG003 (the texts decide)
        occurs = np.zeros(sys.maxunicode + 1, np.bool_)  # by code point
        for codes in map(code_points, texts):
            for start in range(0, len(codes), CHUNK):
                occurs[codes[start : start + CHUNK]] = True
        return cls([chr(code) for code in np.flatnonzero(occurs)])

    def to_json(self) -> dict[str, Any]:
        return {"chars": self.chars}

    def encode(self, text: str) -> Ids:
        codes, ids = code_points(text), np.empty(len(text), self._ids.dtype)
        for start in range(0, len(text), CHUNK):
            self._ids.take(codes[start : start + CHUNK], mode="clip", out=ids[start : start + CHUNK])
        if len(ids) and ids.max() == len(self):
            unknown = sorted(set(text) - set(self.chars))
            named = ", ".join(map(describe, unknown[:MAX_NAMED]))
            more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
            raise BukvaError(
                f"not in the vocabulary of {len(self)} characters: {named}{more}; the first unknown character is "
                f"number {int(ids.argmax()) + 1} of {text[:40]!r}"
            )
        return ids.astype(self.dtype, copy=False)

    def decode(self, ids: npt.ArrayLike) -> str:
        return from_code_points(self._codes[np.asarray(ids, np.int64)])


class ByteTokenizer(Tokenizer):
    unit: ClassVar[str] = "byte"

    def __init__(self) -> None:
        super().__init__(BYTES)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "ByteTokenizer":  # noqa: ARG003 (all texts have equal ids)
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {"kind": "byte"}

    def encode(self, text: str) -> Ids:
        return np.frombuffer(text.encode(), np.uint8)


class BPETokenizer(Tokenizer):
    """Byte-level BPE (byte pair encoding), which gives an id to each frequent sequence of bytes.

    The ids 0 to 255 are the single bytes. The most frequent pair of neighboring tokens in the training text is merged
    into a new token until the vocabulary is full. A merge never crosses the end of a line or of a word, to which the
    space before it belongs.

    Sources: Sennrich, Haddow & Birch 2016, "Neural Machine Translation of Rare Words with Subword Units"; Radford et
    al. 2019 (GPT-2) for the definition of words and the notation of bytes.
    """

    # The library `tokenizers` computes merges and ids. Only the merges are saved, because the library's own file could
    # contain a normalization, after which decoding would not restore the text.

    unit: ClassVar[str] = "token"

    def __init__(self, merges: Iterable[Sequence[str]]) -> None:
        """Create the tokenizer from pairs of tokens in GPT-2's notation, with a printable character for each byte."""
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
        alphabet = list(_byte_chars())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, min_frequency=MIN_FREQUENCY, initial_alphabet=alphabet, show_progress=False
        )
        library.train_from_iterator(texts, trainer)
        return cls(json.loads(library.to_str())["model"]["merges"])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "bpe", "merges": self.merges}

    def encode(self, text: str) -> Ids:
        ids, start = [np.empty(0, self.dtype)], 0
        while start < len(text):
            stop = text.find("\n", start + PIECE_CHARS) + 1 or len(text)  # no merge crosses the end of a line
            ids.append(np.array(self._encoder.encode(text[start:stop]).ids, self.dtype))
            start = stop
        return np.concatenate(ids)


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


TOKENIZERS: dict[str, type[Tokenizer]] = {"char": CharTokenizer, "byte": ByteTokenizer, "bpe": BPETokenizer}


def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    write_json(folder / VOCAB, tokenizer.to_json())


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read a tokenizer from vocab.json, or raise a BukvaError if the file is missing or is not a vocabulary."""
    try:
        content = read_json(folder / VOCAB)
        kind = TOKENIZERS[content.pop("kind", "char")]
        if not all(isinstance(value, list) for value in content.values()):
            raise TypeError("a value is not a list")
        return kind(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BukvaError(f"{folder / VOCAB}: this file is not a vocabulary ({error}); rerun stage tokenize.") from None


def sum_counts(counts_of: Callable[[Ids], Counts], ids: Ids) -> int:
    """Return the sum of `chars_of` or `bytes_of` over (N,) ids that may be memory-mapped."""
    return sum(int(counts_of(ids[start : start + CHUNK]).sum()) for start in range(0, len(ids), CHUNK))


def n_first_ids(tokenizer: Tokenizer, ids: Ids) -> int:
    """Return how many of the (N,) ids of a text encode its first character, which shares no id with the second."""
    others = np.flatnonzero(tokenizer.chars_of(ids[1 : MOST_BYTES + 1]))
    return 1 + int(others[0]) if len(others) else len(ids)


def ids_per_char(ids: Ids, tokenizer: Tokenizer) -> float:
    """Return the number of ids per character, by which bits per id become bits per character."""
    return len(ids) / sum_counts(tokenizer.chars_of, ids)
