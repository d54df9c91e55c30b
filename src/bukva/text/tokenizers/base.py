"""The base class of all tokenizers, and the byte tokenizer.

Each id represents a sequence of UTF-8 bytes. A character is counted for the id that contains its first byte. Ids whose
bytes are not valid UTF-8, which a model may generate, are decoded as U+FFFD, the replacement character.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids

CHUNK = 2**20  # number of ids that are counted at a time, to limit memory
MOST_BYTES = 4  # maximum number of UTF-8 bytes of a character; each byte can have its own id

Counts = npt.NDArray[np.int64]


class Tokenizer(ABC):
    """Converts text to ids and ids to text."""

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
        """Return the (n,) ids of a text.

        Raises:
            BukvaError: a character cannot be encoded. The message names the character and its position.
        """

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


BYTES = [bytes([value]) for value in range(256)]


class ByteTokenizer(Tokenizer):
    """Tokenizer whose ids are the values of the UTF-8 bytes."""

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
    """Return whether each of (n,) bytes is the first byte of a character. All other bytes are 10xxxxxx in binary."""
    return np.frombuffer(utf8, np.uint8) & 0b11000000 != 0b10000000


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
