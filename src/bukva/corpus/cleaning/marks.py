"""Find the text outside the marks of a work, such as the license before and after a book."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

MARK_CHARS = 1000  # a longer mark can be missed at the border of two pieces of a work

Outside = Mapping[int, str]  # number of a line -> name of the rule that removes it
Mark = tuple[range, bool]  # the lines of a mark, and whether it is a start mark


@dataclass(frozen=True)
class Cut:
    """Remove the lines before the text of a work, up to a start mark, and the lines after it, from an end mark on.

    starts: patterns of start marks.
    ends: patterns of end marks.

    Only white space may come before a mark in its line. All lines that a mark touches are removed. The text between an
    end mark and the next start mark is removed, so every book of a file with several books is kept. A start mark that
    follows another start mark removes only its own lines.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    ends: tuple[re.Pattern[str], ...]

    def marks(self, text: str, is_line_start: bool) -> Iterator[Mark]:
        """Yield the marks in a text. The number of its first line is 0.

        `is_line_start` says whether the text begins at the start of a line.
        """
        for pattern, is_start in [*((one, True) for one in self.starts), *((one, False) for one in self.ends)]:
            for match in pattern.finditer(text):
                line_start = text.rfind("\n", 0, match.start()) + 1
                if not text[line_start : match.start()].strip() and (line_start > 0 or is_line_start):
                    line = text.count("\n", 0, match.start())
                    yield range(line, line + match[0].count("\n") + 1), is_start


def lines_outside(cuts: Sequence[Cut], texts: Iterable[str]) -> list[tuple[range, str]]:
    """Return the lines of a work that lie outside its marks, with the name of the rule that removes them.

    A work without marks has no such lines.

    Args:
        cuts: the rules.
        texts: the pieces of the work. Their lines end with a line feed.
    """
    marks: dict[str, list[Mark]] = {cut.name: [] for cut in cuts}
    tail, first_line, is_line_start = "", 0, True
    for piece in texts:
        text = tail + piece
        for cut in cuts:
            for lines, is_start in cut.marks(text, is_line_start):  # a mark in the tail may come twice, without harm
                marks[cut.name].append((range(lines.start + first_line, lines.stop + first_line), is_start))
        tail, is_line_start = text[-MARK_CHARS:], False
        first_line += text.count("\n") - tail.count("\n")
    n_lines = first_line + tail.count("\n") + 1
    return [(lines, name) for name, of_cut in marks.items() for lines in _outside(of_cut, n_lines)]


def _outside(marks: list[Mark], n_lines: int) -> Iterator[range]:
    """Yield the lines before start marks and after end marks. The lines of the marks are included."""
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
