"""The rules of the lecture notes, as a table of symbols (rules/notes.yaml) that is applied to arrays of code points.

What a rule removes is a mask, and counting it is a sum.
"""

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from bukva.corpus.cleaning.removals import EXAMPLES, Cleaned, Example, Removed, RemovedByRule, example
from bukva.text.characters import Codes, code_points, from_code_points

TABLE = Path(__file__).parent / "rules" / "notes.yaml"
LINE_FEED = 10
N_CODE_POINTS = 0x110000
LAST_SPACE = 0x3000  # Unicode's last white space is the ideographic one

WORD, FOREIGN, DELETE = 1, 2, 4  # the kinds of a code point, one bit each; all but white space is of words

Positions = npt.NDArray[np.int64]
Spans = tuple[Positions, Positions]  # starts and stops


@dataclass(frozen=True)
class NotesRules:
    """The table; its symbols are a look-up table over code points."""

    kinds: npt.NDArray[np.uint8]  # (N_CODE_POINTS,)
    prefixes: tuple[str, ...]
    rewrite: tuple[tuple[str, str], ...]

    name = "notes"
    rules = ("leading_white_space", "prefixes", "foreign", "delete", "rewrite")
    ends_works = True  # a second line feed is an empty line and is removed

    @staticmethod
    @functools.cache
    def load() -> "NotesRules":
        """Read the table."""
        table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
        kinds = np.full(N_CODE_POINTS, WORD, np.uint8)
        kinds[[code for code in range(LAST_SPACE + 1) if chr(code).isspace()]] = 0
        for entries, kind in ((table["foreign"], FOREIGN), (table["delete"], DELETE)):
            kinds[[code for entry in entries for code in _codes_of(entry)]] |= kind
        return NotesRules(
            kinds=kinds,
            prefixes=tuple(entry["text"] for entry in table["prefixes"]),
            rewrite=tuple((entry["text"], entry["with"]) for entry in table["rewrite"]),
        )

    def apply(self, text: str, wanted: Collection[str]) -> Cleaned:
        """Clean a text of complete lines, one or more, each ended by a line feed."""
        codes = code_points(text)
        kinds = self.kinds.take(codes)
        end = np.flatnonzero(codes == LINE_FEED)  # (n_lines,) positions, as are the other ends and starts below
        start = np.concatenate([[0], end[:-1] + 1])
        contained = np.bitwise_or.reduceat(kinds, start)  # (n_lines,) the kinds of all symbols of a line
        removed: RemovedByRule = {}

        blank = contained & WORD == 0
        begin = np.where(blank, end, _first_words(kinds, start))
        spaced = blank | (begin > start)
        removed["leading_white_space"] = _removed(begin - start + blank, int(blank.sum()), int(spaced.sum()))

        prefixed = _lengths_of_prefixes(self.prefixes, codes, begin)
        foreign = (contained & FOREIGN != 0) & ~blank
        prefixed_kept = prefixed * ~foreign
        removed["prefixes"] = _removed(prefixed_kept, 0, int(np.count_nonzero(prefixed_kept)))
        n_foreign = int(foreign.sum())
        removed["foreign"] = _removed((end + 1 - begin)[foreign], n_foreign, n_foreign)

        first_kept = np.where(blank | foreign, end + 1, begin + prefixed)
        stay = kinds & DELETE == 0
        stay[_positions(start, first_kept)] = False
        kept = from_code_points(codes[stay])
        n_deleted = len(text) - int((first_kept - start).sum()) - len(kept)
        removed["delete"] = Removed(n_deleted, 0, n_deleted)

        rewritten, strokes = kept, 0
        for old, new in self.rewrite:
            if old[0] in rewritten:  # replace takes six times as long to find nothing
                strokes += rewritten.count(old)
                rewritten = rewritten.replace(old, new)
        removed["rewrite"] = Removed(len(kept) - len(rewritten), 0, strokes)

        spans: dict[str, Callable[[], Spans]] = {
            "leading_white_space": lambda: (start[spaced], (begin + blank)[spaced]),
            "prefixes": lambda: (begin[prefixed_kept > 0], (begin + prefixed)[prefixed_kept > 0]),
            "foreign": lambda: (begin[foreign], end[foreign]),
            "delete": lambda: _deleted(kinds, end, first_kept),
        }
        acted = [rule for rule in wanted if removed[rule].places]
        examples = {rule: _examples(text, end, *spans[rule]()) for rule in acted if rule in spans}
        if "rewrite" in acted:
            examples["rewrite"] = self._rewritten(kept, np.flatnonzero(~(blank | foreign)))
        return Cleaned(rewritten, len(end), removed, examples)

    def _rewritten(self, kept: str, lines: Positions) -> list[Example]:
        """Examples of strokes that are rewritten; `lines` are the numbers that the kept lines had."""
        (double, instead), (_, nothing) = self.rewrite
        found = itertools.islice(re.finditer(f"{double}|{double[0]}", kept), EXAMPLES)
        return [
            example(
                int(lines[kept.count("\n", 0, stroke.start())]),
                kept,
                *stroke.span(),
                replacement=instead if stroke[0] == double else nothing,
            )
            for stroke in found
        ]


def _removed(chars: Positions, lines: int, places: int) -> Removed:
    return Removed(int(chars.sum()), lines, places)


def _examples(text: str, end: Positions, start: Positions, stop: Positions) -> list[Example]:
    """The first spans of the text; `end` are the ends of its lines."""
    first = zip(start[:EXAMPLES].tolist(), stop[:EXAMPLES].tolist(), strict=True)
    return [example(int(np.searchsorted(end, begin)), text, begin, last) for begin, last in first]


def _deleted(kinds: npt.NDArray[np.uint8], end: Positions, first_kept: Positions) -> Spans:
    """The symbols that are deleted from the kept part of a line, which begins at first_kept: (n_lines,)."""
    places = np.flatnonzero(kinds & DELETE)
    places = places[places >= first_kept[np.searchsorted(end, places)]]
    return places, places + 1


def _first_words(kinds: npt.NDArray[np.uint8], start: Positions) -> Positions:
    """(n_lines,) where the first word at or after each start begins; any position if there is none."""
    word = np.zeros(2 + len(kinds), np.uint8)  # two line ends before the text
    word[2:] = kinds & WORD
    # an indented word follows two white-space symbols or more, the line end being one; few others do
    spaced = np.flatnonzero(word[2:] > (word[1:-1] | word[:-2]))
    indented = np.append(spaced, 0)[np.searchsorted(spaced, start)]
    return np.where(kinds[start] & WORD, start, indented)


def _lengths_of_prefixes(prefixes: tuple[str, ...], codes: Codes, begin: Positions) -> npt.NDArray[np.int64]:
    """(n_lines,) the length of the first of the prefixes that the text at `begin` starts with; 0 if there is none."""
    last = len(codes) - 1  # positions past the text read the last line feed, which no prefix contains
    offsets = np.arange(max(map(len, prefixes)))[:, None]
    heads = codes[np.minimum(begin + offsets, last)]  # (longest prefix, n_lines)
    lengths = np.zeros(len(begin), np.int64)
    for prefix in reversed(prefixes):
        lengths[(heads[: len(prefix)] == code_points(prefix)[:, None]).all(axis=0)] = len(prefix)
    return lengths


def _positions(start: Positions, stop: Positions) -> Positions:
    """All positions from each start to its stop, which is excluded."""
    lengths = stop - start
    return np.arange(lengths.sum()) + np.repeat(stop - lengths.cumsum(), lengths)


def _codes_of(entry: dict[str, Any]) -> Iterator[int]:
    if "symbols" in entry:
        yield from map(ord, entry["symbols"])
    else:
        yield from range(ord(entry["first"]), ord(entry["last"]) + 1)
