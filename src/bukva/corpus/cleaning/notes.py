"""The rules `notes` in one compiled pass over code points: the same text, counts and examples as by LineRules.

rules/notes.yaml says what the rules do. Its patterns make a table of the kinds of all code points; the loop knows the
order of the seven rules and which of them see a whole line, a prefix or a symbol. Tests compare it with LineRules.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.corpus.cleaning.line_rules import LineRules
from bukva.corpus.cleaning.removals import EXAMPLES, Cleaned, Example, Removed
from bukva.text.characters import Codes, code_points, from_code_points

EMPTY_LINES, INDENTATION, FOREIGN, PREFIXES, DELETE, DOUBLE_STROKES, STROKES = range(7)  # the rules in their order
SPACE, ALIEN, SYMBOL, STROKE = 1, 2, 4, 8  # the kinds of a code point, one bit each
N_CODE_POINTS = 0x110000
LINE_FEED = ord("\n")

Ints = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]  # (N_CODE_POINTS,)


class NotesRules(LineRules):
    """The rule set of rules/notes.yaml."""

    def apply(self, codes: Codes) -> Cleaned:
        """Clean complete lines, one or more, each ended by a line feed; examples are made when taken."""
        kept = np.empty_like(codes)
        counts = np.zeros((len(self.rules), 3), np.int64)
        acted = np.full((len(self.rules), EXAMPLES), -1)
        n_lines, n_kept = _clean(codes, *_tables(self.line_rules), kept, counts, acted)
        removed = {rule: Removed(*row) for rule, row in zip(self.rules, counts.tolist(), strict=True)}
        examples = {
            rule: self._examples(rule, codes, [start for start in starts if start >= 0])
            for rule, starts in zip(self.rules, acted.tolist(), strict=True)
        }
        return Cleaned(kept[:n_kept], n_lines, removed, examples)

    def _examples(self, rule: str, codes: Codes, starts: list[int]) -> Iterator[Example]:
        """Those of a rule in the lines that start there."""
        text = from_code_points(codes) if starts else ""
        lines = [text[start : text.index("\n", start) + 1] for start in starts]
        for one in super().apply(code_points("".join(lines))).examples[rule]:
            yield one | {"line": text.count("\n", 0, starts[one["line"]])}


@functools.cache
def _tables(rules: tuple[Any, ...]) -> tuple[Kinds, Ints, Codes]:
    """The kinds; the (n_prefixes, longest + 1) code points of the prefixes, each ended by -1; and what replaces two
    strokes."""
    prefixes = rules[PREFIXES].pattern.pattern.removeprefix("^(?:").removesuffix(")").split("|")
    kinds, every = np.zeros(N_CODE_POINTS, np.uint8), "".join(map(chr, range(N_CODE_POINTS)))
    for kind, pattern in (
        (SPACE, rules[INDENTATION].pattern.pattern.strip("^+")),
        (ALIEN, rules[FOREIGN].pattern.pattern),
        (SYMBOL, rules[DELETE].pattern.pattern),
        (STROKE, rules[STROKES].pattern.pattern),
    ):
        kinds[[found.start() for found in re.finditer(pattern, every)]] |= kind
    width = max(map(len, prefixes)) + 1
    padded = np.array([[*map(ord, prefix), *[-1] * (width - len(prefix))] for prefix in prefixes])
    return kinds, padded, code_points(rules[DOUBLE_STROKES].template)


@compiled
def _clean(
    codes: Codes, kinds: Kinds, prefixes: Ints, instead: Codes, kept: Codes, counts: Ints, acted: Ints
) -> tuple[int, int]:
    """Write what remains of the code points into `kept`; returns how many lines there were, and code points remain.

    counts: (7, 3) characters, lines and places of each rule (Removed).
    acted: (7, EXAMPLES) where the first lines start that each rule changes; -1 where there are fewer.
    """
    number = line = n_kept = 0
    while line < len(codes):
        start = line
        while kinds[codes[start]] & SPACE and codes[start] != LINE_FEED:
            start += 1
        stop, contained = start, 0
        for code in codes[start:]:
            if code == LINE_FEED:
                break
            contained |= kinds[code]
            stop += 1
        if start == stop:
            _tell(EMPTY_LINES, stop + 1 - line, 1, 1, line, counts, acted)
        else:
            _tell(INDENTATION, start - line, 0, start > line, line, counts, acted)
        if contained & ALIEN:
            _tell(FOREIGN, stop + 1 - start, 1, 1, line, counts, acted)
        elif start < stop:
            prefix = _prefix(codes, start, prefixes)
            _tell(PREFIXES, prefix, 0, prefix > 0, line, counts, acted)
            rest = codes[start + prefix : stop + 1]
            if contained & (SYMBOL | STROKE) == 0:  # as most lines, which are copied at once
                kept[n_kept : n_kept + len(rest)] = rest
                n_kept += len(rest)
                rest = rest[:0]
            symbols = doubles = strokes = 0
            is_stroke = False  # whether the last kept code point is one, the first of two or one that is deleted
            for code in rest:
                kind = kinds[code]
                if kind & SYMBOL:
                    symbols += 1
                    continue
                if is_stroke and kind & STROKE:
                    kept[n_kept - 1], kept[n_kept] = instead[0], instead[1]
                    doubles += 1
                    is_stroke = False
                else:
                    if is_stroke:
                        n_kept -= 1
                        strokes += 1
                    kept[n_kept] = code
                    is_stroke = kind & STROKE != 0
                n_kept += 1
            _tell(DELETE, symbols, 0, symbols, line, counts, acted)
            _tell(DOUBLE_STROKES, 0, 0, doubles, line, counts, acted)
            _tell(STROKES, strokes, 0, strokes, line, counts, acted)
        number += 1
        line = stop + 1
    return number, n_kept


@compiled
def _prefix(codes: Codes, start: int, prefixes: Ints) -> int:
    """The length of the first of the prefixes that the line begins with, or 0."""
    for prefix in prefixes:
        length = 0
        while prefix[length] == codes[start + length]:  # a line feed is in none, so this stays in the line
            length += 1
        if prefix[length] < 0:
            return length
    return 0


@compiled
def _tell(rule: int, chars: int, lines: int, places: int, line: int, counts: Ints, acted: Ints) -> None:
    """Count what a rule does in a line; nothing if it acts in no place."""
    if places == 0:
        return
    counts[rule, 0] += chars
    counts[rule, 1] += lines
    counts[rule, 2] += places
    for i in range(EXAMPLES):
        if acted[rule, i] < 0:
            acted[rule, i] = line
            return
