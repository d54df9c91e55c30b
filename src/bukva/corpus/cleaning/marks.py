"""Find the text that a publisher put before and after a work, such as a license.

The text of a work begins after a start mark and ends before an end mark. A mark is a line, or a few lines, that a
regular expression matches, such as "*** START OF THE PROJECT GUTENBERG EBOOK".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# Number of characters at the end of a piece that are searched again together with the next piece. A longer mark can be
# missed at the border of two pieces.
MARK_CHARS = 1000

Outside = Mapping[int, str]  # line number outside the marks -> name of the rule that removes the line
Mark = tuple[range, bool]  # line numbers of a mark, and whether it is a start mark


@dataclass(frozen=True)
class Cut:
    """Rule that removes the text that a publisher put before and after a work.

    name: name of the rule.
    starts: regular expressions of start marks.
    ends: regular expressions of end marks.

    A match counts as a mark only at the start of a line. White space may come before it. If the first mark is a start
    mark, the rule removes all lines before it. The rule also removes all lines from an end mark to the next start mark
    or to the end of the file, and the lines of every mark. So in a file of several books, every book is kept.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    ends: tuple[re.Pattern[str], ...]

    def marks(self, text: str, is_line_start: bool) -> Iterator[Mark]:
        """Yield each mark in a text: the range of its line numbers, counted from 0, and whether it is a start mark.

        `is_line_start` says whether the text begins at the start of a line.
        """
        for pattern, is_start in [*((one, True) for one in self.starts), *((one, False) for one in self.ends)]:
            for match in pattern.finditer(text):
                line_start = text.rfind("\n", 0, match.start()) + 1
                if not text[line_start : match.start()].strip() and (line_start > 0 or is_line_start):
                    line = text.count("\n", 0, match.start())
                    yield range(line, line + match[0].count("\n") + 1), is_start


def lines_outside(cuts: Sequence[Cut], texts: Iterable[str]) -> list[tuple[range, str]]:
    """Find the lines of a work that lie outside its start and end marks.

    Args:
        cuts: the rules that search for marks.
        texts: the pieces of the work, in order. Line ends are line feeds.

    Returns:
        Ranges of line numbers in the work, each with the name of the rule that removes these lines. The list is empty
        for a work without marks. Ranges of different rules may overlap.
    """
    marks: dict[str, list[Mark]] = {cut.name: [] for cut in cuts}
    tail, first_line, is_line_start = "", 0, True
    for piece in texts:
        text = tail + piece
        for cut in cuts:
            for lines, is_start in cut.marks(text, is_line_start):  # a mark may be found twice, which does no harm
                marks[cut.name].append((range(lines.start + first_line, lines.stop + first_line), is_start))
        tail, is_line_start = text[-MARK_CHARS:], False
        first_line += text.count("\n") - tail.count("\n")
    n_lines = first_line + tail.count("\n") + 1
    return [(lines, name) for name, of_cut in marks.items() for lines in _outside(of_cut, n_lines)]


def _outside(marks: list[Mark], n_lines: int) -> Iterator[range]:
    """Yield the ranges of line numbers that lie outside the marks of one rule."""
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
