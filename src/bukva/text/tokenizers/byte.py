"""The byte tokenizer, one id per byte of UTF-8; and what bpe has in common with it: each id stands for some bytes.

So any text can be encoded. A character counts where its first byte is. A later byte of it (10xxxxxx in binary) begins
none. A model may write ids whose bytes are not UTF-8; decoded, such bytes are U+FFFD.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids
from bukva.text.tokenizers.base import Counts, Tokenizer

BYTES = [bytes([value]) for value in range(256)]


class Utf8Tokenizer(Tokenizer):
    """Ids that stand for bytes; subclasses train, encode and write JSON."""

    alphabet = None

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Take the bytes of each of V ids."""
        self.tokens = list(tokens)
        self._n_bytes = np.array([len(token) for token in tokens], np.int64)  # (V,)
        self._n_chars = np.array([_begins(token).sum() for token in tokens], np.int64)  # (V,)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def pieces(self) -> list[str]:
        r"""(V,) texts; a byte that is a part of a character, or a control character, is written as \xd0."""
        texts = [token.decode(errors="backslashreplace") for token in self.tokens]
        return [text if text.isprintable() or text in ("\n", "\t") else ascii(text)[1:-1] for text in texts]

    def decode(self, ids: npt.ArrayLike) -> str:
        return self.utf8(ids).decode(errors="replace")

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        """(n,) ids -> their bytes, one after the other."""
        return b"".join(map(self.tokens.__getitem__, np.asarray(ids, np.int64).tolist()))

    def chars_of(self, ids: npt.ArrayLike) -> Counts:
        return self._n_chars[np.asarray(ids, np.int64)]

    def bytes_of(self, ids: npt.ArrayLike) -> Counts:
        return self._n_bytes[np.asarray(ids, np.int64)]

    def parts(self, ids: npt.ArrayLike) -> list[str]:
        utf8, n_bytes = self.utf8(ids), self.bytes_of(ids)
        owner = np.repeat(np.arange(len(n_bytes)), n_bytes)  # the id that each byte is of
        begins = _begins(utf8)
        begins[:1] = True  # the rest of a character whose beginning is not there
        parts = [""] * len(n_bytes)
        for start, stop in pairwise([*np.flatnonzero(begins).tolist(), len(utf8)]):
            parts[owner[start]] += utf8[start:stop].decode(errors="replace")
        return parts


class ByteTokenizer(Utf8Tokenizer):
    """One id per byte, its value; there is nothing to learn."""

    unit: ClassVar[str] = "byte"

    def __init__(self) -> None:
        super().__init__(BYTES)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "ByteTokenizer":  # noqa: ARG003 (it is the same for all)
        return cls()

    @classmethod
    def from_json(cls, content: dict[str, object]) -> "ByteTokenizer":
        if content != {"kind": "byte"}:
            raise ValueError('the byte tokenizer is {"kind": "byte"} and nothing else')
        return cls()

    def to_json(self) -> dict[str, object]:
        return {"kind": "byte"}

    def encode(self, text: str) -> Ids:
        return np.frombuffer(text.encode(), np.uint8)

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        return np.asarray(ids, np.uint8).tobytes()


def _begins(utf8: bytes) -> npt.NDArray[np.bool_]:
    """(n,) bytes -> (n,), which of them begin a character."""
    return np.frombuffer(utf8, np.uint8) & 0b11000000 != 0b10000000
