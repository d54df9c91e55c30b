"""Find text that a publisher put before and after a work, such as a license.

The text of the work begins after a start mark and stops before an end mark. A mark is a line, or a few lines, that a
regular expression matches.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

MARK_CHARS = 1000  # a longer mark can be missed at the border of two pieces of a work

Outside = Mapping[int, str]  # number of a line outside the marks -> name of the rule that removes the line
Mark = tuple[range, bool]  # numbers of the lines of a mark, and whether the mark is a start mark


@dataclass(frozen=True)
class Cut:
    """Rule that removes the lines up to and including a start mark, and the lines from an end mark on.

    name: name of the rule.
    starts: patterns of start marks.
    ends: patterns of end marks.

    A match is a mark only if nothing but white space comes before it in its line. The text between an end mark and the
    next start mark is removed, so in a file of several books every book is kept. If a start mark follows another start
    mark, only its own lines are removed.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    ends: tuple[re.Pattern[str], ...]

    def marks(self, text: str, is_line_start: bool) -> Iterator[Mark]:
        """Yield each mark in a text: the range of its lines, counted from 0, and whether it is a start mark.

        `is_line_start` says whether the text begins at the start of a line.
        """
        for pattern, is_start in [*((one, True) for one in self.starts), *((one, False) for one in self.ends)]:
            for match in pattern.finditer(text):
                line_start = text.rfind("\n", 0, match.start()) + 1
                if not text[line_start : match.start()].strip() and (line_start > 0 or is_line_start):
                    line = text.count("\n", 0, match.start())
                    yield range(line, line + match[0].count("\n") + 1), is_start


def lines_outside(cuts: Sequence[Cut], texts: Iterable[str]) -> list[tuple[range, str]]:
    """Return the lines of a work that lie outside its marks.

    Each item is a range of lines and the name of the rule that removes these lines. The list is empty for a work
    without marks. Ranges of different rules may overlap.

    Args:
        cuts: the rules to apply.
        texts: the pieces of the work. Line ends are line feeds.
    """
    marks: dict[str, list[Mark]] = {cut.name: [] for cut in cuts}
    tail, first_line, is_line_start = "", 0, True
    for piece in texts:
        text = tail + piece
        for cut in cuts:
            for lines, is_start in cut.marks(text, is_line_start):  # finding a mark twice does no harm
                marks[cut.name].append((range(lines.start + first_line, lines.stop + first_line), is_start))
        tail, is_line_start = text[-MARK_CHARS:], False
        first_line += text.count("\n") - tail.count("\n")
    n_lines = first_line + tail.count("\n") + 1
    return [(lines, name) for name, of_cut in marks.items() for lines in _outside(of_cut, n_lines)]


def _outside(marks: list[Mark], n_lines: int) -> Iterator[range]:
    """Yield the ranges of lines up to start marks and from end marks on, including the lines of the marks.

    `marks` is sorted in place. `n_lines` is the number of lines of the work.
    """
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
