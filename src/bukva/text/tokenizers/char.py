"""The character tokenizer of the lecture notes: one id per character, numbered in the order of code points."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from bukva.core.errors import BukvaError
from bukva.text.characters import alphabet, code_points, describe, from_code_points
from bukva.text.ids import Ids

MAX_NAMED = 5  # unknown characters that an error names


class CharTokenizer:
    """One id per character (see bukva.text.tokenizers.base.Tokenizer)."""

    unit: ClassVar[str] = "character"

    def __init__(self, chars: Sequence[str]) -> None:
        """Take an alphabet: single characters, sorted, each once.

        Raises:
            ValueError: it is not one.
        """
        if any(len(char) != 1 for char in chars) or list(chars) != sorted(set(chars)):
            raise ValueError("an alphabet is single characters, sorted, each once")
        self.chars = list(chars)
        self._codes = code_points("".join(self.chars))  # (V,)
        n_codes = int(self._codes[-1]) + 2 if chars else 1  # one more, for all code points above the last
        self._ids = np.full(n_codes, len(self), np.min_scalar_type(len(self)))  # code point -> id, or V if unknown
        self._ids[self._codes] = np.arange(len(self))

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int = 0) -> "CharTokenizer":  # noqa: ARG003 (the texts decide)
        """The tokenizer over the characters of these texts, whose order does not matter."""
        return cls(alphabet(texts))

    @classmethod
    def from_json(cls, content: dict[str, object]) -> "CharTokenizer":
        """From `{"chars": [...]}`.

        Raises:
            ValueError, KeyError, TypeError: it is not that.
        """
        chars = content["chars"]
        if not isinstance(chars, list):
            raise TypeError("chars is not a list")
        return cls(chars)

    def to_json(self) -> dict[str, object]:
        """`{"chars": [...]}`."""
        return {"chars": self.chars}

    def __len__(self) -> int:
        """The size of the vocabulary, V."""
        return len(self.chars)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds every id."""
        return np.dtype(np.min_scalar_type(max(len(self) - 1, 0)))

    @property
    def pieces(self) -> list[str]:
        """(V,) the characters."""
        return self.chars

    @property
    def alphabet(self) -> str:
        """The characters."""
        return "".join(self.chars)

    def knows(self, char: str) -> bool:
        """Whether a character is in the alphabet."""
        return int(self._ids.take(ord(char), mode="clip")) < len(self)

    def encode(self, text: str) -> Ids:
        """Text of n characters -> (n,) ids.

        Raises:
            BukvaError: a character is not in the alphabet; names it and its position.
        """
        ids = self._ids.take(code_points(text), mode="clip")
        if ids.max(initial=0) == len(self) and text:
            raise BukvaError(self._unknown(text, int(ids.argmax())))
        return ids.astype(self.dtype, copy=False)

    def decode(self, ids: npt.ArrayLike) -> str:
        """(n,) ids -> text of n characters."""
        return from_code_points(self._codes[np.asarray(ids, np.int64)])

    def chars_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """(n,) ids -> (n,) ones."""
        return np.ones(len(np.asarray(ids)), np.int64)

    def bytes_of(self, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """(n,) ids -> (n,), 1 to 4 for each character."""
        codes = self._codes[np.asarray(ids, np.int64)]
        return 1 + (codes > 0x7F) + (codes > 0x7FF) + (codes > 0xFFFF).astype(np.int64)

    def parts(self, ids: npt.ArrayLike) -> list[str]:
        """(n,) ids -> (n,) characters."""
        return list(self.decode(ids))

    def _unknown(self, text: str, first: int) -> str:
        unknown = sorted(set(alphabet([text])) - set(self.chars))
        named = ", ".join(describe(char) for char in unknown[:MAX_NAMED])
        more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
        return (
            f"not in the vocabulary of {len(self)} characters: {named}{more}; the first is character {first + 1} "
            f"of {text[:40]!r}"
        )
