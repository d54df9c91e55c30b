"""Tokenizers: text to ids and back. The character tokenizer of the notes."""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bukva.errors import BukvaError
from bukva.files import read_json, write_json

Ids = npt.NDArray[np.unsignedinteger]  # (N,) of one type, the smallest that holds them
Codes = npt.NDArray[np.uint32]  # (N,) code points


class CharTokenizer:
    """One id per character, numbered in the order of code points."""

    def __init__(self, chars: Sequence[str]) -> None:
        """Take an alphabet: single characters, sorted, each once.

        Raises:
            ValueError: it is not one.
        """
        if any(len(char) != 1 for char in chars) or list(chars) != sorted(set(chars)):
            raise ValueError("an alphabet is single characters, sorted, each once")
        self.chars = list(chars)
        self._codes = code_points("".join(self.chars))  # (V,)
        n_codes = int(self._codes[-1]) + 2 if chars else 1  # one more, for all that come after
        self._ids = np.full(n_codes, len(self), np.min_scalar_type(len(self)))  # code point -> id, or V: there is none
        self._ids[self._codes] = np.arange(len(self))

    @classmethod
    def of(cls, texts: Iterable[str]) -> "CharTokenizer":
        """The tokenizer over the characters of these texts, whose order does not matter."""
        return cls(sorted(set().union(*map(alphabet, texts))))

    def __len__(self) -> int:
        """The size of the vocabulary, V."""
        return len(self.chars)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds every id."""
        return np.dtype(np.min_scalar_type(max(len(self) - 1, 0)))

    def encode(self, text: str) -> Ids:
        """Text of n characters -> (n,) ids.

        Raises:
            BukvaError: a character is not in the alphabet; names it and where it stands.
        """
        ids = self._ids.take(code_points(text), mode="clip")
        if ids.max(initial=0) == len(self) and text:
            raise BukvaError(self._unknown(text, int(ids.argmax())))
        return ids.astype(self.dtype, copy=False)

    def decode(self, ids: npt.ArrayLike) -> str:
        """(n,) ids -> text of n characters."""
        return from_code_points(self._codes[np.asarray(ids, np.int64)])

    def save(self, path: Path) -> None:
        """Write the alphabet as JSON, `{"chars": [...]}`."""
        write_json(path, {"chars": self.chars})

    @classmethod
    def load(cls, path: Path) -> "CharTokenizer":
        """Read what `save` wrote.

        Raises:
            BukvaError: the file holds no alphabet.
        """
        try:
            chars = read_json(path)["chars"]
            if not isinstance(chars, list):
                raise TypeError("chars is no list")
            return cls(chars)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BukvaError(f"{path}: not a vocabulary ({error}); rerun stage tokenize.") from None

    def _unknown(self, text: str, first: int) -> str:
        unknown = sorted(set(alphabet(text)) - set(self.chars))
        named = ", ".join(describe(char) for char in unknown[:5])
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        return (
            f"not among the {len(self)} characters of the vocabulary: {named}{more}; the first is number {first + 1} "
            f"of {text[:40]!r}"
        )


def code_points(text: str) -> Codes:
    """Text of n characters -> (n,) code points."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def from_code_points(codes: Codes) -> str:
    """(n,) code points -> text of n characters."""
    return str(codes.data, "utf-32-le")


def alphabet(text: str) -> str:
    """The characters of a text, sorted, each once; a set would take an object for every character."""
    return from_code_points(np.flatnonzero(np.bincount(code_points(text))).astype(np.uint32))


def write_ids(path: Path, dtype: np.dtype[np.unsignedinteger], n: int, pieces: Iterable[Ids]) -> None:
    """Write the n ids of all pieces as one .npy file, with no more than a piece in memory."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (n,)}
        np.lib.format.write_array_header_1_0(file, header)
        for ids in pieces:
            file.write(ids.data)  # tofile would not say why a disk takes no more


def describe(char: str) -> str:
    """A character for error messages, invisible ones included: 'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)."""
    return f"{char!r} (U+{ord(char):04X} {unicodedata.name(char, 'without a name')})"
