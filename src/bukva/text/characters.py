"""Text as arrays of code points: numpy searches and counts them far faster than Python does characters."""

import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint32]  # (N,) code points

PIECE_CHARS = 1 << 18  # an array of this length mostly stays in the processor's cache


def code_points(text: str) -> Codes:
    """Return the (n,) code points of a text of n characters."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def from_code_points(codes: Codes) -> str:
    """Return the text of (n,) code points."""
    return str(codes.data, "utf-32-le")


def pieces(text: str, end: str) -> Iterator[str]:
    """Cut a text into pieces of at least PIECE_CHARS, each of which ends with `end`; the last piece may be shorter."""
    start = 0
    while start < len(text):
        found = text.find(end, start + PIECE_CHARS)
        stop = found + len(end) if found >= 0 else len(text)
        yield text[start:stop]
        start = stop


def describe(char: str) -> str:
    """Name a character in an error message, even if it is invisible: 'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)."""
    return f"{char!r} (U+{ord(char):04X} {unicodedata.name(char, 'without a name')})"
