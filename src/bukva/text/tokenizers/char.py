"""Character tokenizer of the lecture notes. Each character has an id, in the order of code points."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bukva.core.errors import BukvaError
from bukva.text.characters import code_points, describe, from_code_points
from bukva.text.ids import Ids
from bukva.text.tokenizers.base import Tokenizer

MAX_NAMED = 5  # number of unknown characters that an error lists


class CharTokenizer(Tokenizer):
    """Tokenizer with one id per character."""

    unit: ClassVar[str] = "character"

    def __init__(self, chars: Sequence[str]) -> None:
        """Create the tokenizer from its alphabet.

        Raises:
            ValueError: the alphabet is not a sorted list of single characters without duplicates.
        """
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
        for text in texts:
            occurs[code_points(text)] = True
        return cls([chr(code) for code in np.flatnonzero(occurs)])

    def to_json(self) -> dict[str, Any]:
        return {"chars": self.chars}

    def encode(self, text: str) -> Ids:
        ids = self._ids.take(code_points(text), mode="clip")
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
