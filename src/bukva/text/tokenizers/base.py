"""What every tokenizer has in common."""

from collections.abc import Callable, Iterable
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids

CHUNK = 2**20  # ids counted at a time, to bound the memory
MOST_BYTES = 4  # of a character in UTF-8, and so ids of it at most

Counts = npt.NDArray[np.int64]


class Tokenizer(Protocol):
    """Text to ids and back.

    Scores count characters, whatever an id stands for: `chars_of` gives them their denominator. A character counts
    where it begins.

    unit: what an id stands for, in a word: character, byte or token.
    """

    unit: ClassVar[str]

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> Self:
        """Learn from these texts, whose order does not matter; the vocabulary has vocab_size ids if it can choose."""

    @classmethod
    def from_json(cls, content: dict[str, object]) -> Self:
        """What `to_json` gave; raises ValueError, KeyError or TypeError if it is something else."""

    def to_json(self) -> dict[str, object]:
        """All that the tokenizer is, for vocab.json."""

    def __len__(self) -> int:
        """The size of the vocabulary, V."""

    @property
    def pieces(self) -> list[str]:
        """(V,) the text that each id stands for, as people read it."""

    @property
    def alphabet(self) -> str | None:
        """The characters that can be encoded, sorted; None if all can."""

    def encode(self, text: str) -> Ids:
        """Text -> (n,) ids; raises BukvaError, which names the character and its place, if one cannot be encoded."""

    def decode(self, ids: npt.ArrayLike) -> str:
        """(n,) ids -> text."""

    def chars_of(self, ids: npt.ArrayLike) -> Counts:
        """(n,) ids -> (n,), how many characters begin in each id; their sum is the denominator of a score."""

    def bytes_of(self, ids: npt.ArrayLike) -> Counts:
        """(n,) ids -> (n,), how many bytes of UTF-8 each id stands for."""

    def parts(self, ids: npt.ArrayLike) -> list[str]:
        """(n,) ids -> (n,), the characters that begin in each id; joined, they are the text of the ids."""

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds every id."""
        return np.dtype(np.min_scalar_type(max(len(self) - 1, 0)))

    def knows(self, char: str) -> bool:
        """Whether a character can be encoded."""
        return self.alphabet is None or char in self.alphabet


def count_chars(tokenizer: Tokenizer, ids: Ids) -> int:
    """How many characters begin in (N,) ids, which may be memory-mapped."""
    return _sum(tokenizer.chars_of, ids)


def count_bytes(tokenizer: Tokenizer, ids: Ids) -> int:
    """How many bytes of UTF-8 (N,) ids stand for, which may be memory-mapped."""
    return _sum(tokenizer.bytes_of, ids)


def first_char(tokenizer: Tokenizer, ids: Ids) -> int:
    """How many of (N,) ids, N > 0, are the first character, which shares no id with the second."""
    others = np.flatnonzero(tokenizer.chars_of(ids[1 : MOST_BYTES + 1]))
    return 1 + int(others[0]) if len(others) else len(ids)


def ids_per_char(ids: Ids, tokenizer: Tokenizer) -> float:
    """What turns bits per id into bits per character: 1 where every id is a character."""
    return len(ids) / count_chars(tokenizer, ids)


def _sum(counts_of: Callable[[Ids], Counts], ids: Ids) -> int:
    return sum(int(counts_of(ids[start : start + CHUNK]).sum()) for start in range(0, len(ids), CHUNK))
