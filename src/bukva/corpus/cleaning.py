"""Cleaning: from the text of a corpus to the text that the models read, with every removal counted.

A rule set is a table (rules/*.yaml) with a reason for each entry. It is applied to arrays of code points, one work at
a time: what a rule removes is a mask, and counting it is a sum.
"""

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder
from bukva.base.text import Alphabet, Codes, code_points, from_code_points
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import Document, read_table, read_texts, write_collection

RULES = Path(__file__).parent / "rules"
LINE_FEED = 10
N_CODE_POINTS = 0x110000
LAST_SPACE = 0x3000  # Unicode's last white space is the ideographic one

SPACE, FOREIGN, DELETE = 1, 2, 4  # the kinds of a code point, one bit each

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Removed:
    """What one rule removed: characters (line ends included) and whole lines; negative where it added some."""

    chars: int = 0
    lines: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.chars + other.chars, self.lines + other.lines)


RemovedByRule = dict[str, Removed]


def clean(text: str, rules: str) -> tuple[str, RemovedByRule]:
    """Clean one work by the named rule set; returns the text and what each rule removed.

    Line ends become line feeds under every rule set; `none` changes nothing else.
    """
    unix = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    if rules != "none" and not unix.endswith("\n"):
        unix += "\n"  # each work ends in one newline; a second one is an empty line and is removed
    line_ends = {"line_ends": Removed(len(text) - len(unix))}
    if rules == "none":
        return unix, line_ends
    cleaned, removed = _Rules.load(rules).apply(unix)
    return cleaned, line_ends | removed


def clean_collection(raw: Path, target: Path, rules: str) -> dict[str, Any]:
    """Clean every work of a collection into another one with the same layout; a work that becomes empty stays in it.

    Returns:
        reports/cleaning.json: characters, lines and symbols before and after, and what each rule removed.

    Raises:
        BukvaError: nothing is left of the whole corpus; names the rules that removed it.
    """
    totals: RemovedByRule = {}
    symbols = Alphabet()
    before = read_table(raw)

    def cleaned() -> Iterator[tuple[Document, str]]:
        for document, text in read_texts(raw, before):
            kept, removed_by_rule = clean(text, rules)
            symbols.add(kept)
            for rule, removed in removed_by_rule.items():
                totals[rule] = totals.get(rule, Removed()) + removed
            yield document, kept

    with atomic_folder(target) as folder:
        table = write_collection(folder, cleaned())
        chars = int(table["chars"].sum())
        if chars == 0:
            raise BukvaError(_nothing_left(rules, totals))
    return {
        "rule_set": rules,
        "works": len(table),
        "chars_before": int(before["chars"].sum()),
        "chars": chars,
        "symbols": len(symbols.chars),
        "removed": [{"rule": rule, **dataclasses.asdict(removed)} for rule, removed in totals.items()],
    }


def _nothing_left(rules: str, totals: RemovedByRule) -> str:
    largest_first = sorted((item for item in totals.items() if item[1].chars > 0), key=lambda item: -item[1].chars)
    listed = ", ".join(f"{rule} {removed.chars:,} characters" for rule, removed in largest_first)
    what = f"'{rules}' removes the whole text ({listed}); use none, or another corpus."
    return f"params.yaml, clean.rules: {what}\n{WAY_BACK}"


@dataclass(frozen=True)
class _Rules:
    """A rule set; its symbols are a look-up table over code points."""

    kinds: npt.NDArray[np.uint8]  # (N_CODE_POINTS,)
    prefixes: tuple[str, ...]
    rewrite: tuple[tuple[str, str], ...]

    @staticmethod
    @functools.cache
    def load(name: str) -> "_Rules":
        """Read rules/<name>.yaml."""
        table = yaml.safe_load((RULES / f"{name}.yaml").read_text(encoding="utf-8"))
        kinds = np.zeros(N_CODE_POINTS, np.uint8)
        kinds[[code for code in range(LAST_SPACE + 1) if chr(code).isspace()]] |= SPACE
        for entries, kind in ((table["foreign"], FOREIGN), (table["delete"], DELETE)):
            kinds[[code for entry in entries for code in _codes_of(entry)]] |= kind
        return _Rules(
            kinds=kinds,
            prefixes=tuple(entry["text"] for entry in table["prefixes"]),
            rewrite=tuple((entry["text"], entry["with"]) for entry in table["rewrite"]),
        )

    def apply(self, text: str) -> tuple[str, RemovedByRule]:
        """Clean a text of complete lines, each ended by a line feed."""
        codes = code_points(text)
        kinds = self.kinds.take(codes)
        lines = _Lines.of(codes)
        removed: RemovedByRule = {}

        words = np.flatnonzero(np.diff(kinds & SPACE == 0, prepend=False))[::2]  # the starts, without the ends
        begin = lines.first(words)  # (n_lines,): where the text of a line begins; its end if it has none
        blank = begin >= lines.end
        removed["leading_white_space"] = Removed(int((begin - lines.start + blank).sum()), int(blank.sum()))

        prefixed = np.zeros(len(lines.start), np.int64)  # length of the prefix that is removed
        for prefix in self.prefixes:
            prefixed[(prefixed == 0) & ~blank & _starts_with(codes, begin, prefix)] = len(prefix)

        foreign = lines.containing(kinds & FOREIGN != 0) & ~blank
        removed["prefixes"] = Removed(int(prefixed[~foreign].sum()))
        removed["foreign"] = Removed(int((lines.end + 1 - begin)[foreign].sum()), int(foreign.sum()))
        removed_lines = blank | foreign

        keep = lines.spans(np.where(removed_lines, lines.end + 1, begin + prefixed), lines.end + 1)
        stay = keep & (kinds & DELETE == 0)
        removed["delete"] = Removed(int(np.count_nonzero(keep) - np.count_nonzero(stay)))
        kept = from_code_points(codes[stay])

        rewritten = kept
        for old, new in self.rewrite:
            rewritten = rewritten.replace(old, new)
        removed["rewrite"] = Removed(len(kept) - len(rewritten))
        return rewritten, removed


@dataclass(frozen=True)
class _Lines:
    """The lines of a text: from `start` to `end`, the position of the line feed; both (n_lines,) int64."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    @staticmethod
    def of(codes: Codes) -> "_Lines":
        end = np.flatnonzero(codes == LINE_FEED)
        return _Lines(np.concatenate([[0], end[:-1] + 1]) if len(end) else end, end)

    def first(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n_lines,) the first of these positions in each line; the end of the line if there is none."""
        positions = np.append(positions, self.end[-1] if len(self.end) else 0)
        return np.minimum(positions[np.searchsorted(positions[:-1], self.start)], self.end)

    def containing(self, wanted: Mask) -> Mask:
        """(n_lines,) True where a line contains a wanted character."""
        contains = np.zeros(len(self.end), bool)
        contains[np.searchsorted(self.end, np.flatnonzero(wanted))] = True
        return contains

    @staticmethod
    def spans(start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> Mask:
        """(the last stop,) True from each start to its stop, which is excluded; the spans are disjoint and sorted."""
        edges = np.stack([start, stop], axis=1).ravel()
        return np.repeat(np.tile([False, True], len(start)), np.diff(edges, prepend=0))


def _starts_with(codes: Codes, begin: npt.NDArray[np.int64], prefix: str) -> Mask:
    """(n_lines,) True where the text at `begin` starts with `prefix`."""
    last = len(codes) - 1  # positions past the text read the last line feed, which no prefix contains
    return np.logical_and.reduce([codes[np.minimum(begin + i, last)] == ord(symbol) for i, symbol in enumerate(prefix)])


def _codes_of(entry: dict[str, Any]) -> Iterator[int]:
    if "symbols" in entry:
        yield from map(ord, entry["symbols"])
    else:
        yield from range(ord(entry["first"]), ord(entry["last"]) + 1)
