"""Text as arrays of code points, which numpy looks up a hundred times as fast as Python looks up characters."""

import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]  # (N,) code points

# Arrays of so many elements mostly stay in a processor's cache, and their memory is used again.
PIECE_CHARS = 1 << 18


def code_points(text: str) -> Codes:
    """Text of n characters -> (n,) code points, in two bytes each where that is enough."""
    units = text.encode("utf-16-le")  # a character beyond the basic plane takes two units
    if len(units) == 2 * len(text):
        return np.frombuffer(units, np.uint16)
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def from_code_points(codes: Codes) -> str:
    """(n,) code points -> text of n characters."""
    return str(codes.data, "utf-16-le" if codes.itemsize == 2 else "utf-32-le")


def pieces(text: str, end: str = "") -> Iterator[str]:
    """The text in pieces of PIECE_CHARS, the last one shorter; if `end` is given, each extends to the next one."""
    start = 0
    while start < len(text):
        found = text.find(end, start + PIECE_CHARS)
        stop = found + len(end) if found >= 0 else len(text)
        yield text[start:stop]
        start = stop


def describe(char: str) -> str:
    """A character for error messages, invisible ones included: 'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)."""
    return f"{char!r} (U+{ord(char):04X} {unicodedata.name(char, 'without a name')})"
