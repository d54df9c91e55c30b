"""Cleaning: from the text of a corpus to the text that the models read, with every removal counted.

A rule set (bukva.corpus.cleaning.rule_sets) is applied to a piece of a work at a time; pieces end at a line end.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder
from bukva.base.text import pieces
from bukva.config.messages import WAY_BACK
from bukva.corpus.cleaning.removals import Cleaned, Record, Removed, RemovedByRule, RuleSet
from bukva.corpus.cleaning.rule_sets import Chosen
from bukva.corpus.cleaning.scripts import CharCounts
from bukva.corpus.collection import Document, read_table, read_texts, write_collection

LINE_ENDS = "line_ends"  # what happens under every rule set
OPENINGS = 3  # beginnings of works that can serve as prompts
OPENING_CHARS = 30
ALPHABET = 300  # symbols that are counted in the report


def clean(text: str, rules: RuleSet) -> tuple[str, RemovedByRule]:
    """Clean one work; returns the text and what each rule removed.

    Line ends become line feeds under every rule set; `none` changes nothing else.
    """
    record = Record([LINE_ENDS, *rules.rules])
    record.begin("")
    return "".join(_cleaned(iter([text]), rules, record)), record.totals


def clean_piece(text: str, rules: RuleSet, wanted: Collection[str] = ()) -> Cleaned:
    """Clean a piece of a work that ends at a line end, or with the work; with examples of the wanted rules."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    if rules.ends_works and unix and not unix.endswith("\n"):
        unix += "\n"  # only the last line of a work has none
    line_ends = Removed(len(text) - len(unix), 0, text.count("\r"))
    if not unix:
        return Cleaned("", 0, {LINE_ENDS: line_ends})
    cleaned = rules.apply(unix, [rule for rule in wanted if rule in rules.rules])
    return Cleaned(cleaned.text, cleaned.lines, {LINE_ENDS: line_ends} | cleaned.removed, cleaned.examples)


def clean_collection(raw: Path, target: Path, chosen: Chosen) -> dict[str, Any]:
    """Clean every work of a collection into another one with the same layout; a work that becomes empty stays in it.

    Returns:
        reports/cleaning.json: the rule set and why it was used; characters and symbols before and after; what each rule
        removed, with examples; the works that lost most; of the cleaned text the letters by script, the most frequent
        symbols, and the beginnings of a few works.

    Raises:
        BukvaError: nothing is left of the whole corpus; names the rules that removed it.
    """
    rules = chosen.rules
    record, counts = Record([LINE_ENDS, *rules.rules]), CharCounts()
    openings: list[str] = []
    before = read_table(raw)

    def cleaned() -> Iterator[tuple[Document, Iterator[str]]]:
        for document, text in read_texts(raw, before):
            record.begin(document.name)
            yield document, kept(text)

    def kept(text: Iterator[str]) -> Iterator[str]:
        opening = ""
        for piece in _cleaned(text, rules, record):
            counts.add(piece)
            opening = opening or _opening(piece)
            yield piece
        if opening and len(openings) < OPENINGS and opening not in openings:
            openings.append(opening)

    with atomic_folder(target) as folder:
        table = write_collection(folder, cleaned())
        chars = int(table["chars"].sum())
        if chars == 0:
            raise BukvaError(_nothing_left(rules.name, record.totals))
    return {
        "rule_set": rules.name,
        "why": chosen.why,
        "works": len(table),
        "chars_before": int(before["chars"].sum()),
        "chars": chars,
        "symbols": len(counts),
        "removed": record.removed(),
        "examples": record.examples(),
        "lost_most": record.lost_most(),
        "letters": counts.letters(),
        "alphabet": counts.most_frequent(ALPHABET),
        "openings": openings,
    }


def _cleaned(text: Iterator[str], rules: RuleSet, record: Record) -> Iterator[str]:
    """The cleaned pieces of a work, recorded."""
    piece = next(text, "")
    while piece:
        following = next(text, "")
        clean_part = _clean_cut if following else clean_piece
        for part in pieces(piece, "\n"):
            cleaned = clean_part(part, rules, record.wanted())
            record.add(part, cleaned)
            yield cleaned.text
        piece = following


def _clean_cut(text: str, rules: RuleSet, wanted: Collection[str]) -> Cleaned:
    """Clean a piece that the work goes on after: where it cuts a line, rules take the cut for a line end."""
    if text.endswith("\n"):
        return clean_piece(text, rules, wanted)
    cleaned = clean_piece(f"{text}\n", rules, wanted)
    kept = cleaned.text.removesuffix("\n")
    # the added line feed was never in the text, so no rule has removed it
    line_ends = cleaned.removed[LINE_ENDS] + Removed(len(cleaned.text) - len(kept) - 1)
    return Cleaned(kept, cleaned.lines - 1, cleaned.removed | {LINE_ENDS: line_ends}, cleaned.examples)


def _opening(text: str) -> str:
    """The beginning of the first line with a word, in whole words."""
    line, _, _ = text[: 100 * OPENING_CHARS].lstrip().partition("\n")
    words = line[:OPENING_CHARS].rpartition(" ")[0] if len(line) > OPENING_CHARS else line
    return words or line[:OPENING_CHARS]


def _nothing_left(rules: str, totals: RemovedByRule) -> str:
    largest_first = sorted((item for item in totals.items() if item[1].chars > 0), key=lambda item: -item[1].chars)
    listed = ", ".join(f"{rule} {removed.chars:,} characters" for rule, removed in largest_first)
    what = f"'{rules}' removes the whole text ({listed}); use none, or another corpus."
    return f"params.yaml, clean.rules: {what}\n{WAY_BACK}"
