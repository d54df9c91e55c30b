"""What all tokenizers have in common, each id standing for some bytes of UTF-8; and the plainest, of single bytes.

A character counts where its first byte is; a later byte of it (10xxxxxx in binary) begins none. A model may write ids
whose bytes are not UTF-8; decoded, such bytes are U+FFFD.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids

CHUNK = 2**20  # ids counted at a time, to bound the memory
MOST_BYTES = 4  # of a character in UTF-8, and so ids of it at most

Counts = npt.NDArray[np.int64]


class Tokenizer(ABC):
    r"""Text to ids and back; subclasses learn, encode, and are written as JSON.

    Scores count characters, whatever an id stands for: `chars_of` gives them their denominator.

    unit: what an id stands for, in a word: character, byte or token.
    alphabet: the characters that can be encoded, sorted; None if all can.
    tokens: (V,) the bytes of each id.
    pieces: (V,) their text; a part of a character, or a control character, is written as \xd0.
    dtype: the smallest unsigned type that holds every id.
    """

    unit: ClassVar[str]
    alphabet: str | None = None

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Take the bytes of each of V ids."""
        self.tokens = list(tokens)
        texts = [token.decode(errors="backslashreplace") for token in tokens]
        self.pieces = [text if text.isprintable() or text in ("\n", "\t") else ascii(text)[1:-1] for text in texts]
        self.dtype: np.dtype[np.unsignedinteger] = np.dtype(np.min_scalar_type(max(len(tokens) - 1, 0)))
        self._n_bytes = np.array([len(token) for token in tokens], np.int64)  # (V,)
        self._n_chars = np.array([_begins(token).sum() for token in tokens], np.int64)  # (V,)

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Learn from these texts, whose order does not matter; the vocabulary has vocab_size ids if it can choose."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """For vocab.json: the kind, char if it is not named, and what the class is called with."""

    @abstractmethod
    def encode(self, text: str) -> Ids:
        """Text -> (n,) ids; raises BukvaError, which names the character and its place, if one cannot be encoded."""

    def __len__(self) -> int:
        """The size of the vocabulary, V."""
        return len(self.tokens)

    def decode(self, ids: npt.ArrayLike) -> str:
        """(n,) ids -> text."""
        return self.utf8(ids).decode(errors="replace")

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        """(n,) ids -> their bytes, one after the other."""
        return b"".join(map(self.tokens.__getitem__, np.asarray(ids, np.int64).tolist()))

    def chars_of(self, ids: npt.ArrayLike) -> Counts:
        """(n,) ids -> (n,), how many characters begin in each id; their sum is the denominator of a score."""
        return self._n_chars[np.asarray(ids, np.int64)]

    def bytes_of(self, ids: npt.ArrayLike) -> Counts:
        """(n,) ids -> (n,), how many bytes of UTF-8 each id stands for."""
        return self._n_bytes[np.asarray(ids, np.int64)]

    def parts(self, ids: npt.ArrayLike) -> list[str]:
        """(n,) ids -> (n,), the characters that begin in each id; joined, they are the text of the ids."""
        utf8, n_bytes = self.utf8(ids), self.bytes_of(ids)
        owner = np.repeat(np.arange(len(n_bytes)), n_bytes)  # the id that each byte is of
        begins = _begins(utf8)
        begins[:1] = True  # the rest of a character whose beginning is not there
        parts = [""] * len(n_bytes)
        for start, stop in pairwise([*np.flatnonzero(begins).tolist(), len(utf8)]):
            parts[owner[start]] += utf8[start:stop].decode(errors="replace")
        return parts

    def knows(self, char: str) -> bool:
        """Whether a character can be encoded."""
        return self.alphabet is None or char in self.alphabet


BYTES = [bytes([value]) for value in range(256)]


class ByteTokenizer(Tokenizer):
    """One id per byte, its value; there is nothing to learn."""

    unit: ClassVar[str] = "byte"

    def __init__(self) -> None:
        super().__init__(BYTES)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "ByteTokenizer":  # noqa: ARG003 (it is the same for all)
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {"kind": "byte"}

    def encode(self, text: str) -> Ids:
        return np.frombuffer(text.encode(), np.uint8)

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        return np.asarray(ids, np.uint8).tobytes()


def _begins(utf8: bytes) -> npt.NDArray[np.bool_]:
    """(n,) bytes -> (n,), which of them begin a character."""
    return np.frombuffer(utf8, np.uint8) & 0b11000000 != 0b10000000


def total(counts_of: Callable[[Ids], Counts], ids: Ids) -> int:
    """The sum of `chars_of` or `bytes_of` over (N,) ids, which may be memory-mapped."""
    return sum(int(counts_of(ids[start : start + CHUNK]).sum()) for start in range(0, len(ids), CHUNK))


def first_char(tokenizer: Tokenizer, ids: Ids) -> int:
    """How many of (N,) ids, N > 0, are the first character, which shares no id with the second."""
    others = np.flatnonzero(tokenizer.chars_of(ids[1 : MOST_BYTES + 1]))
    return 1 + int(others[0]) if len(others) else len(ids)


def ids_per_char(ids: Ids, tokenizer: Tokenizer) -> float:
    """What turns bits per id into bits per character: 1 where every id is a character."""
    return len(ids) / total(tokenizer.chars_of, ids)
