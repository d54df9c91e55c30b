"""Find what lies outside two marks of a work, such as the licence before and after a book."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

MARK_CHARS = 1000  # a longer mark can be missed where two pieces of a work meet

Outside = Mapping[int, str]  # number of a line -> name of the rule that removes it
Mark = tuple[range, bool]  # the lines of a mark, and whether text starts after it


@dataclass(frozen=True)
class Cut:
    """Remove the lines before the text of a work, up to a mark, and those after it, from another mark on.

    starts: the marks before the text.
    ends: the marks after the text.

    A mark begins its line, apart from white space, and goes with all lines that it touches. What lies between an end
    and the next start is removed, so of several books in one file each is kept. A start that follows another start
    removes only itself.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    ends: tuple[re.Pattern[str], ...]

    def marks(self, text: str, is_line_start: bool) -> Iterator[Mark]:
        """Yield the marks in a text, which may start within a line; lines count from 0."""
        for pattern, is_start in [*((one, True) for one in self.starts), *((one, False) for one in self.ends)]:
            for found in pattern.finditer(text):
                line_start = text.rfind("\n", 0, found.start()) + 1
                if not text[line_start : found.start()].strip() and (line_start > 0 or is_line_start):
                    line = text.count("\n", 0, found.start())
                    yield range(line, line + found[0].count("\n") + 1), is_start


def lines_outside(cuts: Sequence[Cut], texts: Iterable[str]) -> list[tuple[range, str]]:
    """Return the lines of a work that lie outside its marks, and the rule that removes them; none without marks.

    Args:
        cuts: the rules.
        texts: the work in pieces, in which lines end with a line feed.
    """
    marks: dict[str, list[Mark]] = {cut.name: [] for cut in cuts}
    tail, first_line, is_line_start = "", 0, True
    for piece in texts:
        text = tail + piece
        for cut in cuts:
            for lines, is_start in cut.marks(text, is_line_start):  # those in the tail once more
                marks[cut.name].append((range(lines.start + first_line, lines.stop + first_line), is_start))
        tail, is_line_start = text[-MARK_CHARS:], False
        first_line += text.count("\n") - tail.count("\n")
    n_lines = first_line + tail.count("\n") + 1
    return [(lines, name) for name, found in marks.items() for lines in _outside(found, n_lines)]


def _outside(marks: list[Mark], n_lines: int) -> Iterator[range]:
    """Yield the lines before starts and after ends, with those of the marks."""
    marks.sort(key=lambda mark: mark[0].start)
    outside_from = 0 if marks and marks[0][1] else None
    for lines, is_start in marks:
        if is_start:
            yield range(lines.start if outside_from is None else outside_from, lines.stop)
            outside_from = None
        elif outside_from is None:
            outside_from = lines.start
    if outside_from is not None:
        yield range(outside_from, n_lines)
