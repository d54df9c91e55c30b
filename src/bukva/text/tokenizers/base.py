"""Base class of the tokenizers, whose ids are sequences of bytes in UTF-8; and the byte tokenizer.

A character is counted at its first byte; its other bytes are 10xxxxxx in binary. A model may generate ids whose bytes
are not UTF-8. Such bytes are decoded as U+FFFD.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids

CHUNK = 2**20  # ids that are counted at a time, to bound the memory
MOST_BYTES = 4  # of a character in UTF-8, so a character has at most 4 ids

Counts = npt.NDArray[np.int64]


class Tokenizer(ABC):
    r"""Encodes text as ids and decodes ids to text.

    Scores are per character for every tokenizer: `chars_of` gives their denominator.

    unit: what an id is: character, byte or token.
    alphabet: the characters that can be encoded, sorted; None if all can.
    tokens: (V,) bytes of each id.
    pieces: (V,) text of each id; control characters and parts of a character are written as \xd0.
    dtype: smallest unsigned type that holds every id.
    """

    unit: ClassVar[str]
    alphabet: str | None = None

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Take the bytes of each id."""
        self.tokens = list(tokens)
        texts = [token.decode(errors="backslashreplace") for token in tokens]
        self.pieces = [text if text.isprintable() or text in ("\n", "\t") else ascii(text)[1:-1] for text in texts]
        self.dtype: np.dtype[np.unsignedinteger] = np.dtype(np.min_scalar_type(max(len(tokens) - 1, 0)))
        self._n_bytes = np.array([len(token) for token in tokens], np.int64)  # (V,)
        self._n_chars = np.array([_begins(token).sum() for token in tokens], np.int64)  # (V,)

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Learn the vocabulary of these texts, whose order does not matter.

        `vocab_size` is the maximum number of ids, for tokenizers that can choose it.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the content of vocab.json: the arguments of the class, and the kind (char by default)."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Return the (n,) ids of a text.

        Raises:
            BukvaError: a character cannot be encoded. The message names it and its position.
        """

    def __len__(self) -> int:
        """The size of the vocabulary, V."""
        return len(self.tokens)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Return the text of (n,) ids."""
        return self.utf8(ids).decode(errors="replace")

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        """Return the bytes of (n,) ids."""
        return b"".join(map(self.tokens.__getitem__, np.asarray(ids, np.int64).tolist()))

    def chars_of(self, ids: npt.ArrayLike) -> Counts:
        """Return the (n,) numbers of characters that begin in each id. Their sum is the denominator of a score."""
        return self._n_chars[np.asarray(ids, np.int64)]

    def bytes_of(self, ids: npt.ArrayLike) -> Counts:
        """Return the (n,) numbers of bytes of each id."""
        return self._n_bytes[np.asarray(ids, np.int64)]

    def parts(self, ids: npt.ArrayLike) -> list[str]:
        """Return the characters that begin in each of (n,) ids; joined, they are the text of the ids."""
        utf8, n_bytes = self.utf8(ids), self.bytes_of(ids)
        owner = np.repeat(np.arange(len(n_bytes)), n_bytes)  # position of the id of each byte
        begins = _begins(utf8)
        begins[:1] = True  # the ids may begin within a character
        parts = [""] * len(n_bytes)
        for start, stop in pairwise([*np.flatnonzero(begins).tolist(), len(utf8)]):
            parts[owner[start]] += utf8[start:stop].decode(errors="replace")
        return parts

    def knows(self, char: str) -> bool:
        """Return whether a character can be encoded."""
        return self.alphabet is None or char in self.alphabet


BYTES = [bytes([value]) for value in range(256)]


class ByteTokenizer(Tokenizer):
    """The id of a byte is its value; there is nothing to learn."""

    unit: ClassVar[str] = "byte"

    def __init__(self) -> None:
        super().__init__(BYTES)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "ByteTokenizer":  # noqa: ARG003 (all texts have the same ids)
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {"kind": "byte"}

    def encode(self, text: str) -> Ids:
        return np.frombuffer(text.encode(), np.uint8)

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        return np.asarray(ids, np.uint8).tobytes()


def _begins(utf8: bytes) -> npt.NDArray[np.bool_]:
    """Return, for each of (n,) bytes, whether it begins a character."""
    return np.frombuffer(utf8, np.uint8) & 0b11000000 != 0b10000000


def total(counts_of: Callable[[Ids], Counts], ids: Ids) -> int:
    """Return the sum of `chars_of` or `bytes_of` over (N,) ids, which may be memory-mapped."""
    return sum(int(counts_of(ids[start : start + CHUNK]).sum()) for start in range(0, len(ids), CHUNK))


def n_first_ids(tokenizer: Tokenizer, ids: Ids) -> int:
    """Return the number of ids of the first character of (N,) ids, N > 0. It shares no id with the second character."""
    others = np.flatnonzero(tokenizer.chars_of(ids[1 : MOST_BYTES + 1]))
    return 1 + int(others[0]) if len(others) else len(ids)


def ids_per_char(ids: Ids, tokenizer: Tokenizer) -> float:
    """Return the factor from bits per id to bits per character: 1 if every id is a character."""
    return len(ids) / total(tokenizer.chars_of, ids)
