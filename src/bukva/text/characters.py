"""Convert text to arrays of code points, which numpy searches and counts far faster than Python does strings."""

import unicodedata

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint16 | np.uint32]  # (N,) code points


def code_points(text: str) -> Codes:
    """Return the (n,) code points of a text with n characters, as uint16 if all of them fit."""
    utf16 = text.encode("utf-16-le")
    is_short = len(utf16) == 2 * len(text)  # a larger code point takes four bytes
    return np.frombuffer(utf16, np.uint16) if is_short else np.frombuffer(text.encode("utf-32-le"), np.uint32)


def from_code_points(codes: Codes) -> str:
    """Convert (n,) code points to a text."""
    return str(codes.data, f"utf-{8 * codes.itemsize}-le")


def describe(char: str) -> str:
    """Describe a character for error messages, such as "'ѣ' (U+0463 CYRILLIC SMALL LETTER YAT)"."""
    return f"{char!r} (U+{ord(char):04X} {unicodedata.name(char, 'without a name')})"
