"""Clean the text of a corpus, and count every removed character.

The rules (bukva.corpus.cleaning.rule_sets) are applied to one piece of a work at a time. Pieces end at a line end.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import counting
from bukva.corpus.cleaning.line_rules import LineRules
from bukva.corpus.cleaning.removals import Cleaned, Record, Removed, RemovedByRule
from bukva.corpus.cleaning.scripts import CharCounts
from bukva.text.collection import Document, read_table, read_texts, write_collection

LINE_ENDS = "line_ends"  # the rule that is part of every rule set
OPENINGS = 3  # number of openings of works that are kept as possible prompts
OPENING_CHARS = 30
ALPHABET = 300  # number of symbols in the report

Piece = tuple[Document, str, bool]  # the work, a piece of its text, and whether the work goes on after it


def clean(text: str, rules: LineRules, goes_on: bool = False) -> Cleaned:
    """Clean a work, or a piece of one.

    Line ends become line feeds under every rule set. A rule set without rules (`none`) changes nothing else; all others
    end each work with a line feed.

    Args:
        text: the work or the piece.
        rules: the rule set.
        goes_on: whether the work goes on after the piece. A line that is cut at the end of the piece is then cleaned as
            if it ended there.
    """
    unix = text.replace("\r\n", "\n").replace("\r", "\n")
    is_cut = goes_on and not unix.endswith("\n")
    if rules.rules and unix and not unix.endswith("\n"):
        unix += "\n"
    line_ends = Removed(len(text) - len(unix), 0, text.count("\r"))
    if not unix or not rules.rules:
        return Cleaned(unix, unix.count("\n"), {LINE_ENDS: line_ends})
    cleaned = rules.apply(unix)
    kept, lines = cleaned.text, cleaned.lines
    if is_cut:  # the added line feed was never in the text, so no rule has removed it
        kept, lines = kept[:-1], lines - 1
        line_ends += Removed(len(cleaned.text) - len(kept))
    return dataclasses.replace(cleaned, text=kept, lines=lines, removed={LINE_ENDS: line_ends} | cleaned.removed)


def removed_share(raw: Path, rules: LineRules) -> float:
    """Return the share of the characters that the rules remove, once all line ends are line feeds."""
    kept, removed = 0, 0
    with counting(f"clean: trying rules {rules.name}", int(read_table(raw)["chars"].sum())) as show:
        for _, text, goes_on in _pieces(raw):
            cleaned = clean(text, rules, goes_on)
            kept += len(cleaned.text)
            removed += sum(cleaned.removed[rule].chars for rule in rules.rules if rule in cleaned.removed)
            show(cleaned.chars_before)
    return removed / max(1, kept + removed)


def clean_collection(raw: Path, target: Path, rules: LineRules, why: str) -> dict[str, Any]:
    """Clean every work of a collection and write the result as another collection. Empty works stay in it.

    Returns:
        The content of reports/cleaning.json: the rule set and the reason for it; the number of characters before and
        after; what each rule removed, with examples; the letters of the cleaned text by script, its most frequent
        symbols, and the openings of a few works.

    Raises:
        BukvaError: nothing is left of the whole corpus. The message names the rules that removed it.
    """
    record, counts = Record([LINE_ENDS, *rules.rules]), CharCounts()
    openings: list[str] = []
    before = read_table(raw)

    def kept(document: Document, pieces: Iterator[Piece]) -> Iterator[str]:
        record.begin(document.name)
        opening = ""
        for _, text, goes_on in pieces:
            piece = clean(text, rules, goes_on)
            record.add(piece)
            counts.add(piece.text)
            opening = opening or _opening(piece.text[: 100 * OPENING_CHARS])
            show(piece.chars_before)
            yield piece.text
        if opening and len(openings) < OPENINGS and opening not in openings:
            openings.append(opening)

    n_chars = int(before["chars"].sum())
    with atomic_folder(target) as folder, counting("clean", n_chars) as show:
        works = itertools.groupby(_pieces(raw), lambda piece: piece[0])
        table = write_collection(folder, ((document, kept(document, own)) for document, own in works))
        chars = int(table["chars"].sum())
        if chars == 0:
            raise ParamsError(_nothing_left(rules.name, record.totals))
    return {
        "rule_set": rules.name,
        "why": why,
        "works": len(table),
        "chars_before": n_chars,
        "chars": chars,
        "symbols": len(counts),
        "removed": record.removed(),
        "examples": record.examples(),
        "letters": counts.letters(),
        "alphabet": counts.most_frequent(ALPHABET),
        "openings": openings,
    }


def _pieces(raw: Path) -> Iterator[Piece]:
    """Yield the pieces of all works. An empty work has one empty piece."""
    for document, texts in read_texts(raw, read_table(raw)):
        text = next(texts, "")
        for following in texts:
            yield document, text, True
            text = following
        yield document, text, False


def _opening(text: str) -> str:
    """Return the start of the first line that is not blank, cut at the end of a word."""
    line, _, _ = text.lstrip().partition("\n")
    words = line[:OPENING_CHARS].rpartition(" ")[0] if len(line) > OPENING_CHARS else line
    return words or line[:OPENING_CHARS]


def _nothing_left(rules: str, totals: RemovedByRule) -> str:
    largest_first = sorted((item for item in totals.items() if item[1].chars > 0), key=lambda item: -item[1].chars)
    listed = ", ".join(f"{rule} {removed.chars:,} characters" for rule, removed in largest_first)
    what = f"'{rules}' removes the whole text ({listed}); use none, or another corpus."
    return f"params.yaml, clean.rules: {what}"
