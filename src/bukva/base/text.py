"""Text as arrays of code points, which numpy looks up a hundred times as fast as Python looks up characters."""

import unicodedata

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint32]  # (N,) code points


def code_points(text: str) -> Codes:
    """Text of n characters -> (n,) code points."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def from_code_points(codes: Codes) -> str:
    """(n,) code points -> text of n characters."""
    return str(codes.data, "utf-32-le")


def alphabet(text: str) -> str:
    """The characters of a text, sorted, each once; a set creates an object for every character."""
    return from_code_points(np.flatnonzero(np.bincount(code_points(text))).astype(np.uint32))


def describe(char: str) -> str:
    """A character for error messages, invisible ones included: 'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)."""
    return f"{char!r} (U+{ord(char):04X} {unicodedata.name(char, 'without a name')})"
