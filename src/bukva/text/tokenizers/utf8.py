"""What byte and bpe have in common: each id stands for some bytes of UTF-8, so any text can be encoded.

A character counts where its first byte is. A later byte of it (10xxxxxx in binary) begins none. A model may write ids
whose bytes are not UTF-8; decoded, such bytes are U+FFFD.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt


def first_bytes(utf8: bytes) -> npt.NDArray[np.bool_]:
    """(n,) bytes -> (n,), which of them begin a character."""
    return np.frombuffer(utf8, np.uint8) & 0b11000000 != 0b10000000


class Utf8Tokenizer:
    """Ids that stand for bytes (see bukva.text.tokenizers.base.Tokenizer); subclasses train, encode and write JSON."""

    def __init__(self, tokens: Sequence[bytes]) -> None:
        """Take the bytes of each of V ids."""
        self.tokens = list(tokens)
        self._n_bytes = np.array([len(token) for token in tokens], np.int64)  # (V,)
        self._n_chars = np.array([first_bytes(token).sum() for token in tokens], np.int64)  # (V,)

    def __len__(self) -> int:
        """The size of the vocabulary, V."""
        return len(self.tokens)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds every id."""
        return np.dtype(np.min_scalar_type(len(self) - 1))

    @property
    def pieces(self) -> list[str]:
        r"""(V,) texts; a byte that is a part of a character, or a control character, is written as \xd0."""
        texts = [token.decode(errors="backslashreplace") for token in self.tokens]
        return [text if text.isprintable() or text in ("\n", "\t") else ascii(text)[1:-1] for text in texts]

    @property
    def alphabet(self) -> None:
        """None: any text can be encoded."""

    def knows(self, char: str) -> bool:  # noqa: ARG002 (the same answer for all)
        """True."""
        return True

    def decode(self, ids: npt.ArrayLike) -> str:
        """(n,) ids -> text, with U+FFFD for bytes that are not UTF-8."""
        return self.utf8(ids).decode(errors="replace")

    def utf8(self, ids: npt.ArrayLike) -> bytes:
        """(n,) ids -> their bytes, one after the other."""
        return b"".join(map(self.tokens.__getitem__, np.asarray(ids, np.int64).tolist()))

    def chars_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """(n,) ids -> (n,), how many characters begin in each."""
        return self._n_chars[np.asarray(ids, np.int64)]

    def bytes_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """(n,) ids -> (n,), how many bytes each stands for."""
        return self._n_bytes[np.asarray(ids, np.int64)]

    def parts(self, ids: npt.ArrayLike) -> list[str]:
        """(n,) ids -> (n,) the characters that begin in each; joined, they are the text of the ids."""
        utf8, n_bytes = self.utf8(ids), self.bytes_of(ids)
        owner = np.repeat(np.arange(len(n_bytes)), n_bytes)  # the id that each byte is of
        begins = first_bytes(utf8)
        begins[:1] = True  # the rest of a character whose beginning is not there
        parts = [""] * len(n_bytes)
        for start, stop in pairwise([*np.flatnonzero(begins).tolist(), len(utf8)]):
            parts[owner[start]] += utf8[start:stop].decode(errors="replace")
        return parts
