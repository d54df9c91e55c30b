"""Convert text to arrays of code points and back.

numpy searches and counts code points in an array far faster than Python does with the characters of a string.
"""

import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint32]  # (N,) code points

PIECE_CHARS = 1 << 18  # an array of this many code points mostly stays in the processor's cache


def code_points(text: str) -> Codes:
    """Return the (n,) code points of a text with n characters."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def from_code_points(codes: Codes) -> str:
    """Convert (n,) code points to a text."""
    return str(codes.data, "utf-32-le")


def pieces(text: str, end: str) -> Iterator[str]:
    """Cut a text into pieces of at least PIECE_CHARS characters. Each piece ends with `end`.

    The last piece may be shorter, and may end differently.
    """
    start = 0
    while start < len(text):
        at = text.find(end, start + PIECE_CHARS)
        stop = at + len(end) if at >= 0 else len(text)
        yield text[start:stop]
        start = stop


def describe(char: str) -> str:
    """Describe a character for error messages, such as "'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)"."""
    return f"{char!r} (U+{ord(char):04X} {unicodedata.name(char, 'without a name')})"
