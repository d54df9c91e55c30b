"""Clean the works of a collection by a rule set (rules.py), and count the characters that each rule removes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import progress_bar
from bukva.corpus.cleaning.removals import Record
from bukva.corpus.cleaning.rules import RuleSet
from bukva.corpus.cleaning.scripts import char_counts, letters_by_script
from bukva.text.collection import Document, read_table, read_texts, write_collection

OPENINGS = 3  # maximum number of works whose first words the report keeps, because they can serve as prompts
OPENING_CHARS = 30  # maximum number of characters of such first words
ALPHABET = 300  # maximum number of different characters that the report lists
MOSTLY_CUT = 0.5  # the report lists works with a larger fraction of text outside their start and end marks


def cleaned_works(raw: Path, rules: RuleSet, record: Record, shown: str) -> Iterator[tuple[Document, str, str]]:
    """Yield each work of a collection with its text before and after cleaning, and show the progress named `shown`."""
    table = read_table(raw)
    with progress_bar(shown, int(table["chars"].sum())) as show:
        for document, text in read_texts(raw, table):
            record.begin(document.name)
            yield document, text, rules.clean(text, record)
            show(len(text))


def removed_share(raw: Path, rules: RuleSet) -> float:
    """Return the fraction of the characters of a collection that the rules for single lines remove.

    Text outside the start and end marks of the works is not counted. Every line end counts as one character.
    """
    record = Record(rules.rule_names)
    works = cleaned_works(raw, rules, record, f"clean: trying rule set {rules.name}")
    kept = sum(len(cleaned) for *_, cleaned in works)
    removed = sum(record.counts[rule.name, "chars"] for rule in rules.line_rules)
    return removed / max(1, kept + removed)


def clean_collection(raw: Path, target: Path, rules: RuleSet, why: str) -> dict[str, Any]:
    """Clean every work of the collection in the folder `raw`, and write the cleaned collection to `target`.

    If the rules remove the whole text of a work, the work stays in the collection as an empty work.

    Returns:
        The content of reports/cleaning.json, with these keys:
        `rule_set`, `why`: the name of the rule set, and the reason for choosing it.
        `works`: the number of works.
        `chars_before`, `chars`: the number of characters before and after cleaning.
        `symbols`: the number of different characters after cleaning.
        `removed`, `examples`: what each rule removed (see `Record`).
        `mostly_cut`: for works with more than half of the text outside their start and end marks, this fraction, by
            name of the work.
        `letters`: the number of letters in the cleaned text, by script (writing system).
        `alphabet`: the counts of the most frequent characters of the cleaned text, by character.
        `openings`: the first words of up to three works, which can serve as prompts.

    Raises:
        BukvaError: only white space is left of the whole corpus. The message names the rules that removed the text.
    """
    record, counts = Record(rules.rule_names), Counter[str]()
    openings: list[str] = []
    mostly_cut: dict[str, float] = {}

    def works() -> Iterator[tuple[Document, str]]:
        cut_before = 0
        for document, text, cleaned in cleaned_works(raw, rules, record, "clean"):
            counts.update(char_counts(cleaned))
            cut = sum(record.counts[rule.name, "chars"] for rule in rules.cuts)
            if cut - cut_before > MOSTLY_CUT * len(text):
                mostly_cut[document.name] = round((cut - cut_before) / len(text), 4)
            cut_before = cut
            opening = _opening(cleaned[: 100 * OPENING_CHARS])
            if opening and len(openings) < OPENINGS and opening not in openings:
                openings.append(opening)
            yield document, cleaned

    with atomic_folder(target) as folder:
        table = write_collection(folder, works())
        # Line feeds do not count as text. If a rule deletes all characters of a line, its line feed stays.
        if all(char.isspace() for char in counts):
            raise ParamsError(_nothing_left(rules.name, record))
    return {
        "rule_set": rules.name,
        "why": why,
        "works": len(table),
        "chars_before": int(read_table(raw)["chars"].sum()),
        "chars": int(table["chars"].sum()),
        "symbols": len(counts),
        "removed": record.removed(),
        "examples": record.examples(),
        "mostly_cut": mostly_cut,
        "letters": letters_by_script(counts),
        "alphabet": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ALPHABET]),
        "openings": openings,
    }


def _opening(text: str) -> str:
    """Return the first line that is not blank, cut to at most OPENING_CHARS characters."""
    line, _, _ = text.lstrip().partition("\n")
    words = line[:OPENING_CHARS].rpartition(" ")[0] if len(line) > OPENING_CHARS else line
    return words or line[:OPENING_CHARS]


def _nothing_left(rules: str, record: Record) -> str:
    largest_first = sorted((rule for rule in record.removed() if rule["chars"] > 0), key=lambda rule: -rule["chars"])
    listed = ", ".join(f"rule {rule['rule']}: {rule['chars']:,} characters" for rule in largest_first)
    what = f"'{rules}' removes the whole text ({listed}); use 'none', or another corpus."
    return f"params.yaml, clean.rules: {what}"
