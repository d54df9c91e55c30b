"""Works summed by author, category and decade, and how figures write their names."""

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence

from bukva.report.style import SHOWN
from bukva.text.collection import MISSING

NOT_GIVEN = "not given"  # the author, category or year of a work
FONT = "DejaVu Sans"  # comes with matplotlib
LABEL_CHARS = 28

Numbers = list[int]  # of one label: the characters first
Rows = list[tuple[str, Numbers]]


def works_and_chars(labels: Iterable[str], chars: Iterable[int]) -> dict[str, Numbers]:
    """label -> characters and works."""
    sums: dict[str, Numbers] = {}
    for label, n in zip(labels, chars, strict=True):
        numbers = sums.setdefault(label, [0, 0])
        numbers[0] += n
        numbers[1] += 1
    return sums


def largest(sums: Mapping[str, Sequence[int]], most: int, *, by_name: bool = False) -> Rows:
    """The labels with most characters and one row for all others; the largest first, or by name."""
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    kept, rest = ordered[:most], ordered[most:]
    if by_name:
        kept.sort(key=lambda item: (item[0] == MISSING, item[0]))
    rows = [(NOT_GIVEN if label == MISSING else label, list(numbers)) for label, numbers in kept]
    if rest:
        rows.append((f"others ({len(rest)})", [sum(column) for column in zip(*(of for _, of in rest), strict=True)]))
    return rows


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
