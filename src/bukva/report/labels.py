"""Works summed by author, category and decade, and how figures write their names."""

import functools
import itertools

from bukva.report.style import SHOWN

FONT = "DejaVu Sans"  # comes with matplotlib
LABEL_CHARS = 28


def drawn(text: str) -> str:
    """Text that a figure can draw on one line, shortened."""
    shown = "".join(itertools.islice(map(_glyph, text), LABEL_CHARS + 1))
    return shown if len(shown) <= LABEL_CHARS else f"{shown[: LABEL_CHARS - 1]}…"


def drawn_symbol(char: str) -> str:
    """One character as the label of its bar: itself, a sign for white space, or its code point."""
    return SHOWN.get(char) or _glyph(char)


def _glyph(char: str) -> str:
    return char if char.isprintable() and ord(char) in _glyphs() else f"U+{ord(char):04X}"


@functools.cache
def _glyphs() -> frozenset[int]:
    """The code points that the font has."""
    from matplotlib import font_manager

    return frozenset(font_manager.get_font(font_manager.findfont(FONT)).get_charmap())
