"""Clean the texts of a corpus, and count the characters that each rule removes.

A work (one text of the corpus) is read in pieces, and the rules (rule_sets.py) are applied to one piece at a time. A
piece ends at a line end, unless a line is too long for one piece.

Some rules remove the text that a publisher put before the start mark or after the end mark of a work (marks.py). These
rules search the whole work for marks before its first piece is cleaned.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import progress_bar
from bukva.corpus.cleaning.line_rules import LineRules
from bukva.corpus.cleaning.marks import Outside, lines_outside
from bukva.corpus.cleaning.removals import Cleaned, Record, Removed, RemovedByRule
from bukva.corpus.cleaning.scripts import CharCounts
from bukva.text.collection import Document, read_table, read_texts, write_collection

LINE_ENDS = "line_ends"  # name of the rule that converts line ends; every rule set has it
OPENINGS = 3  # maximum number of works whose first words the report keeps, because they can serve as prompts
OPENING_CHARS = 30  # maximum number of characters of such first words
ALPHABET = 300  # maximum number of different characters that the report lists
MOSTLY_CUT = 0.5  # the report lists works with a larger fraction of text outside their start and end marks


class Piece(NamedTuple):
    """A piece of a work (one text of the corpus).

    document: category, author, name and year of the work.
    text: the text of the piece.
    goes_on: whether another piece of the work follows.
    outside: the lines of the piece that lie outside the start and end marks of the work (marks.py). The keys are line
        numbers in the piece, counted from 0. The values are the names of the rules that remove these lines.
    """

    document: Document
    text: str
    goes_on: bool
    outside: Outside


def clean(text: str, rules: LineRules, goes_on: bool = False, outside: Outside | None = None) -> Cleaned:
    """Clean the text of a work, or of one piece of a work.

    Every rule set converts line ends to line feeds. The rule set `none` changes nothing else. All other rule sets also
    add a line feed to a work that does not end with a line feed.

    Args:
        text: the text to clean.
        rules: the rule set.
        goes_on: whether `text` is followed by another piece of the work. In this case, `text` may end in the middle of
            a line. This part of the line is cleaned like a whole line.
        outside: the lines of `text` to remove because they lie outside the start and end marks of the work (see
            `Piece`). If `None`, `text` must be a whole work, and this function finds the marks itself.
    """
    unix = _unix(text)
    if outside is None:
        outside = _outside_in_piece(lines_outside(rules.cuts, [unix]), 0, unix)
    is_cut = goes_on and not unix.endswith("\n")
    if rules.rule_names and unix and not unix.endswith("\n"):
        unix += "\n"
    line_ends = Removed(len(text) - len(unix), 0, text.count("\r"))
    if not unix or not rules.rule_names:
        return Cleaned(unix, unix.count("\n"), {LINE_ENDS: line_ends})
    cleaned = rules.apply(unix, outside)
    kept, lines = cleaned.text, cleaned.lines
    if is_cut:  # the text continues in the next piece, so take the added line feed away again
        kept, lines = kept[:-1], lines - 1
        line_ends += Removed(len(cleaned.text) - len(kept))
    return dataclasses.replace(cleaned, text=kept, lines=lines, removed={LINE_ENDS: line_ends} | cleaned.removed)


def removed_share(raw: Path, rules: LineRules) -> float:
    """Return the fraction of the characters of a collection that the rules for single lines remove, from 0 to 1.

    Text outside the start and end marks of the works (marks.py) is not counted. Every line end counts as one character.

    Args:
        raw: folder of the collection.
        rules: the rule set that contains the rules.
    """
    kept, removed = 0, 0
    with progress_bar(f"clean: trying rule set {rules.name}", int(read_table(raw)["chars"].sum())) as show:
        for _, text, goes_on, outside in pieces(raw, rules):
            cleaned = clean(text, rules, goes_on, outside)
            kept += len(cleaned.text)
            removed += sum(
                cleaned.removed[rule.name].chars for rule in rules.line_rules if rule.name in cleaned.removed
            )
            show(cleaned.chars_before)
    return removed / max(1, kept + removed)


def clean_collection(raw: Path, target: Path, rules: LineRules, why: str) -> dict[str, Any]:
    """Clean every work of the collection in the folder `raw`, and write the cleaned collection to `target`.

    If the rules remove the whole text of a work, the work stays in the collection as an empty work.

    Args:
        raw: folder of the collection.
        target: folder of the cleaned collection.
        rules: the rule set.
        why: the reason for choosing this rule set. It becomes part of the result.

    Returns:
        The content of reports/cleaning.json, with these keys:
        `rule_set`, `why`: the name of the rule set, and the argument `why`.
        `works`: the number of works.
        `chars_before`, `chars`: the number of characters before and after cleaning.
        `symbols`: the number of different characters after cleaning.
        `removed`, `examples`: what each rule removed (see `Record.removed` and `Record.examples`).
        `mostly_cut`: for works with more than half of the text outside their start and end marks, this fraction, by
            name of the work.
        `letters`: the number of letters in the cleaned text, by script (writing system).
        `alphabet`: the counts of the most frequent characters of the cleaned text, by character.
        `openings`: the first words of up to three works, which can serve as prompts.

    Raises:
        BukvaError: only white space is left of the whole corpus. The message names the rules that removed the text.
    """
    record, counts = Record([LINE_ENDS, *rules.rule_names]), CharCounts()
    openings: list[str] = []
    mostly_cut: dict[str, float] = {}
    before = read_table(raw)

    def cleaned_texts(document: Document, pieces: Iterator[Piece]) -> Iterator[str]:
        record.begin(document.name)
        opening, chars, cut = "", 0, 0
        for _, text, goes_on, outside in pieces:
            piece = clean(text, rules, goes_on, outside)
            record.add(piece)
            counts.add(piece.text)
            opening = opening or _opening(piece.text[: 100 * OPENING_CHARS])
            chars += piece.chars_before
            cut += sum(piece.removed[rule.name].chars for rule in rules.cuts if rule.name in piece.removed)
            show(piece.chars_before)
            yield piece.text
        if cut > MOSTLY_CUT * chars:
            mostly_cut[document.name] = round(cut / chars, 4)
        if opening and len(openings) < OPENINGS and opening not in openings:
            openings.append(opening)

    n_chars = int(before["chars"].sum())
    with atomic_folder(target) as folder, progress_bar("clean", n_chars) as show:
        works = itertools.groupby(pieces(raw, rules), lambda piece: piece.document)
        table = write_collection(
            folder, ((document, "".join(cleaned_texts(document, parts))) for document, parts in works)
        )
        chars = int(table["chars"].sum())
        # Line feeds do not count as text. If a rule deletes all characters of a line, its line feed stays.
        if all(char.isspace() for char, _ in counts.items()):
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
        "mostly_cut": mostly_cut,
        "letters": counts.letters(),
        "alphabet": counts.most_frequent(ALPHABET),
        "openings": openings,
    }


def pieces(raw: Path, rules: LineRules) -> Iterator[Piece]:
    """Yield all works in the collection `raw`, each as one piece."""
    for document, text in read_texts(raw, read_table(raw)):
        outside = lines_outside(rules.cuts, [_unix(text)]) if rules.cuts else []
        yield Piece(document, text, False, _outside_in_piece(outside, 0, text))


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _outside_in_piece(outside: list[tuple[range, str]], first_line: int, text: str) -> Outside:
    """Return the lines of a piece that lie outside the start and end marks of the work."""
    if not outside or not text:
        return {}
    unix = _unix(text)
    after = first_line + unix.count("\n") + (not unix.endswith("\n"))
    return {
        line - first_line: rule
        for lines, rule in reversed(outside)
        for line in range(max(lines.start, first_line), min(lines.stop, after))
    }


def _opening(text: str) -> str:
    """Return the first line that is not blank, cut to at most OPENING_CHARS characters."""
    line, _, _ = text.lstrip().partition("\n")
    words = line[:OPENING_CHARS].rpartition(" ")[0] if len(line) > OPENING_CHARS else line
    return words or line[:OPENING_CHARS]


def _nothing_left(rules: str, totals: RemovedByRule) -> str:
    largest_first = sorted((item for item in totals.items() if item[1].chars > 0), key=lambda item: -item[1].chars)
    listed = ", ".join(f"rule {rule}: {removed.chars:,} characters" for rule, removed in largest_first)
    what = f"'{rules}' removes the whole text ({listed}); use 'none', or another corpus."
    return f"params.yaml, clean.rules: {what}"
