"""Cleaning: from the text of a corpus to the text that the models read, with every removal counted.

A rule set is a table (rules/*.yaml) with a reason for each entry. It is applied to arrays of code points, a piece of a
work at a time: what a rule removes is a mask, and counting it is a sum.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder
from bukva.base.text import Alphabet, Codes, code_points, from_code_points, pieces
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import Document, read_table, read_texts, write_collection

RULES = Path(__file__).parent / "rules"
LINE_FEED = 10
N_CODE_POINTS = 0x110000
LAST_SPACE = 0x3000  # Unicode's last white space is the ideographic one

WORD, FOREIGN, DELETE = 1, 2, 4  # the kinds of a code point, one bit each; all but white space is of words

Positions = npt.NDArray[np.int64]


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
    cleaned, removed = zip(*map(_Rules.load(rules).apply, pieces(unix, "\n")), strict=True)
    return "".join(cleaned), line_ends | _summed(removed)


def clean_collection(raw: Path, target: Path, rules: str) -> dict[str, Any]:
    """Clean every work of a collection into another one with the same layout; a work that becomes empty stays in it.

    Returns:
        reports/cleaning.json: characters, lines and symbols before and after, and what each rule removed.

    Raises:
        BukvaError: nothing is left of the whole corpus; names the rules that removed it.
    """
    removed: list[RemovedByRule] = []  # by each work
    symbols = Alphabet()
    before = read_table(raw)

    def cleaned() -> Iterator[tuple[Document, list[str]]]:
        for document, text in read_texts(raw, before):
            kept, removed_by_rule = clean("".join(text), rules)
            symbols.add(kept)
            removed.append(removed_by_rule)
            yield document, [kept]

    with atomic_folder(target) as folder:
        table = write_collection(folder, cleaned())
        chars = int(table["chars"].sum())
        if chars == 0:
            raise BukvaError(_nothing_left(rules, _summed(removed)))
    return {
        "rule_set": rules,
        "works": len(table),
        "chars_before": int(before["chars"].sum()),
        "chars": chars,
        "symbols": len(symbols.chars),
        "removed": [{"rule": rule, **dataclasses.asdict(counts)} for rule, counts in _summed(removed).items()],
    }


def _summed(removed: Sequence[RemovedByRule]) -> RemovedByRule:
    return {rule: sum((counts[rule] for counts in removed), Removed()) for rule in removed[0]}


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
        kinds = np.full(N_CODE_POINTS, WORD, np.uint8)
        kinds[[code for code in range(LAST_SPACE + 1) if chr(code).isspace()]] = 0
        for entries, kind in ((table["foreign"], FOREIGN), (table["delete"], DELETE)):
            kinds[[code for entry in entries for code in _codes_of(entry)]] |= kind
        return _Rules(
            kinds=kinds,
            prefixes=tuple(entry["text"] for entry in table["prefixes"]),
            rewrite=tuple((entry["text"], entry["with"]) for entry in table["rewrite"]),
        )

    def apply(self, text: str) -> tuple[str, RemovedByRule]:
        """Clean a text of complete lines, one or more, each ended by a line feed."""
        codes = code_points(text)
        kinds = self.kinds.take(codes)
        end = np.flatnonzero(codes == LINE_FEED)  # (n_lines,) positions, as are the other ends and starts below
        start = np.concatenate([[0], end[:-1] + 1])
        contained = np.bitwise_or.reduceat(kinds, start)  # (n_lines,) the kinds of all symbols of a line
        removed: RemovedByRule = {}

        blank = contained & WORD == 0
        begin = np.where(blank, end, _first_words(kinds, start))
        removed["leading_white_space"] = Removed(int((begin - start + blank).sum()), int(blank.sum()))

        prefixed = _lengths_of_prefixes(self.prefixes, codes, begin)
        foreign = (contained & FOREIGN != 0) & ~blank
        removed["prefixes"] = Removed(int(prefixed[~foreign].sum()))
        removed["foreign"] = Removed(int((end + 1 - begin)[foreign].sum()), int(foreign.sum()))

        first_kept = np.where(blank | foreign, end + 1, begin + prefixed)
        stay = kinds & DELETE == 0
        stay[_positions(start, first_kept)] = False
        kept = from_code_points(codes[stay])
        removed["delete"] = Removed(len(text) - int((first_kept - start).sum()) - len(kept))

        rewritten = kept
        for old, new in self.rewrite:
            if old[0] in rewritten:  # replace takes six times as long to find nothing
                rewritten = rewritten.replace(old, new)
        removed["rewrite"] = Removed(len(kept) - len(rewritten))
        return rewritten, removed


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
