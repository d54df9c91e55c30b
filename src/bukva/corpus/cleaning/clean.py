"""Cleaning: from the text of a corpus to the text that the models read, with every removal counted.

A rule set (bukva.corpus.cleaning.rule_sets) is applied to a piece of a work at a time; pieces end at a line end. Pieces
do not depend on each other, so several processes clean a large corpus.
"""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bukva.config.messages import WAY_BACK
from bukva.core.errors import BukvaError
from bukva.core.files import atomic_folder
from bukva.core.progress import counting
from bukva.core.workers import applied
from bukva.corpus.cleaning.removals import Account, Chosen, Cleaned, Record, Removed, RemovedByRule, RuleSet
from bukva.corpus.cleaning.scripts import CharCounts, Counted, counted
from bukva.text.characters import pieces
from bukva.text.collection import Document, read_table, read_texts, write_collection

LINE_ENDS = "line_ends"  # what happens under every rule set
OPENINGS = 3  # beginnings of works that can serve as prompts
OPENING_CHARS = 30
ALPHABET = 300  # symbols that are counted in the report
SHARED_BYTES = 1 << 26  # of a corpus that is worth the start of other processes (docs/dev/log.md)


class Piece(NamedTuple):
    """A piece of a work as it is on the disk; whether the work goes on after it; the rules to give examples of."""

    document: Document
    text: str
    goes_on: bool
    wanted: Collection[str]


class CleanPiece(NamedTuple):
    """What became of it. The opening is the beginning of its first line with a word."""

    document: Document
    text: str
    accounts: list[Account]
    symbols: Counted
    opening: str


@dataclass(frozen=True)
class Cleaner:
    """Cleans pieces, in any process."""

    rules: RuleSet

    def __call__(self, piece: Piece) -> CleanPiece:
        """Clean one piece."""
        parts, accounts, opening = [], list[Account](), ""
        for before, cleaned in _cleaned(piece.text, self.rules, piece.wanted, goes_on=piece.goes_on):
            parts.append(cleaned.text)
            accounts.append(Account.of(before, cleaned))
            opening = opening or _opening(cleaned.text)
        text = "".join(parts)
        return CleanPiece(piece.document, text, accounts, counted(text), opening)


def clean(text: str, rules: RuleSet) -> tuple[str, RemovedByRule]:
    """Clean one work; returns the text and what each rule removed.

    Line ends become line feeds under every rule set; `none` changes nothing else.
    """
    record = Record([LINE_ENDS, *rules.rules])
    record.begin("")
    cleaned = []
    for before, part in _cleaned(text, rules, record.wanted(""), goes_on=False):
        record.add(Account.of(before, part))
        cleaned.append(part.text)
    return "".join(cleaned), record.totals


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


def removed_share(raw: Path, rules: RuleSet) -> float:
    """The share of a collection's characters that rules remove, once line ends are line feeds."""
    table, kept, removed = read_table(raw), 0, 0
    with counting(f"clean: trying rules {rules.name}", int(table["chars"].sum())) as show:
        for _, texts in read_texts(raw, table):
            for text, goes_on in _with_whether_more_follow(texts):
                for before, cleaned in _cleaned(text, rules, (), goes_on=goes_on):
                    kept += len(cleaned.text)
                    removed += sum(cleaned.removed[rule].chars for rule in rules.rules)
                    show(len(before))
    return removed / max(1, kept + removed)


def clean_collection(raw: Path, target: Path, chosen: Chosen, processes: int = 1) -> dict[str, Any]:
    """Clean every work of a collection into another one with the same layout; a work that becomes empty stays in it.

    Args:
        raw: the folder of the collection.
        target: the folder of the cleaned one.
        chosen: the rules.
        processes: that share a large corpus; their number changes no byte.

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

    def found() -> Iterator[Piece]:
        for document, texts in read_texts(raw, before):
            for text, goes_on in _with_whether_more_follow(texts):
                yield Piece(document, text, goes_on, record.wanted(document.name))

    def kept(document: Document, cleaned: Iterator[CleanPiece]) -> Iterator[str]:
        record.begin(document.name)
        opening = ""
        for piece in cleaned:
            for account in piece.accounts:
                record.add(account)
                show(account.chars)
            counts.add_counted(piece.symbols)
            opening = opening or piece.opening
            yield piece.text
        if opening and len(openings) < OPENINGS and opening not in openings:
            openings.append(opening)

    n_chars, is_shared = int(before["chars"].sum()), int(before["bytes"].sum()) >= SHARED_BYTES
    with (
        atomic_folder(target) as folder,
        counting("clean", n_chars) as show,
        applied(Cleaner(rules), processes if is_shared else 1) as cleaned,
    ):
        works = itertools.groupby(cleaned(found()), lambda piece: piece.document)
        table = write_collection(folder, ((document, kept(document, own)) for document, own in works))
        chars = int(table["chars"].sum())
        if chars == 0:
            raise BukvaError(_nothing_left(rules.name, record.totals))
    return {
        "rule_set": rules.name,
        "why": chosen.why,
        "works": len(table),
        "chars_before": n_chars,
        "chars": chars,
        "symbols": len(counts),
        "removed": record.removed(),
        "examples": record.examples(),
        "lost_most": record.lost_most(),
        "letters": counts.letters(),
        "alphabet": counts.most_frequent(ALPHABET),
        "openings": openings,
    }


def _with_whether_more_follow(texts: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """The pieces of a work, one at least, which is empty if the work is."""
    text = next(texts, "")
    for following in texts:
        yield text, True
        text = following
    yield text, False


def _cleaned(text: str, rules: RuleSet, wanted: Collection[str], *, goes_on: bool) -> Iterator[tuple[str, Cleaned]]:
    """A piece of a work in parts that stay in a processor's cache, each as it was and cleaned."""
    clean_part = _clean_cut if goes_on else clean_piece
    for part in pieces(text, "\n"):
        yield part, clean_part(part, rules, wanted)


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
