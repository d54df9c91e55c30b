"""Clean the works of a collection by a rule set (rules.py), and count the characters that each rule removes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fontTools.unicodedata import script, script_name

from bukva.core.errors import ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import progress_bar
from bukva.corpus.cleaning.rules import Record, RuleSet
from bukva.text.characters import code_points
from bukva.text.collection import Work, read_table, read_texts, write_collection

OPENINGS = 3  # maximum number of works whose first words the report keeps, because they can serve as prompts
OPENING_CHARS = 30  # maximum number of characters of such first words
ALPHABET = 300  # maximum number of different characters that the report lists
MOSTLY_CUT = 0.5  # the report lists works with a larger fraction of text outside their start and end marks


def cleaned_works(raw: Path, rules: RuleSet, record: Record, shown: str) -> Iterator[tuple[Work, str, str]]:
    """Yield each work of a collection with its text before and after cleaning, and show the progress named `shown`."""
    table = read_table(raw)
    with progress_bar(shown, int(table["chars"].sum())) as show:
        for work, text in read_texts(raw, table):
            record.begin(work.name)
            yield work, text, rules.clean(text, record)
            show(len(text))


class TooMuchRemovedError(Exception):
    """The line rules removed more than the allowed fraction of the text. The argument is the fraction."""


def clean_collection(raw: Path, target: Path, rules: RuleSet, why: str, may_remove: float = 1) -> dict[str, Any]:
    """Clean every work of the collection in the folder `raw`, and write the cleaned collection to `target`.

    If the rules remove the whole text of a work, the work stays in the collection as an empty work. If only white space
    is left of the whole corpus, a ParamsError names the rules. `why` is the reason for choosing these rules. If the
    line rules remove more than the fraction `may_remove` of the text inside start and end marks, this is a
    TooMuchRemovedError. After an error, `target` is unchanged.

    Returns the content of reports/cleaning.json (docs/text-reference.md explains its keys).
    """
    record, counts = Record(rules.rule_names), Counter[str]()
    openings: list[str] = []
    mostly_cut: dict[str, float] = {}

    def works() -> Iterator[tuple[Work, str]]:
        cut_before = 0
        for work, text, cleaned in cleaned_works(raw, rules, record, "clean"):
            counts.update(char_counts(cleaned))
            cut = sum(record.counts[rule.name]["chars"] for rule in rules.cuts)
            if cut - cut_before > MOSTLY_CUT * len(text):
                mostly_cut[work.name] = round((cut - cut_before) / len(text), 4)
            cut_before = cut
            opening = _opening(cleaned[: 100 * OPENING_CHARS])
            if opening and len(openings) < OPENINGS and opening not in openings:
                openings.append(opening)
            yield work, cleaned

    with atomic_folder(target) as folder:
        table = write_collection(folder, works())
        n_chars, n_removed = (
            int(table["chars"].sum()),
            sum(record.counts[rule.name]["chars"] for rule in rules.line_rules),
        )
        if (share := n_removed / max(1, n_chars + n_removed)) > may_remove:
            raise TooMuchRemovedError(share)
        # Line feeds do not count as text. If a rule deletes all characters of a line, its line feed stays.
        if all(char.isspace() for char in counts):
            removed = sorted(((rule["chars"], rule["rule"]) for rule in record.removed()), key=lambda rule: -rule[0])
            listed = (f"rule {rule}: {chars:,} characters" for chars, rule in removed if chars > 0)
            what = f"'{rules.name}' removes the whole text ({', '.join(listed)}); use 'none', or another corpus."
            raise ParamsError(f"params.yaml, clean.rules: {what}")
    return {
        "rule_set": rules.name,
        "why": why,
        "works": len(table),
        "chars_before": int(read_table(raw)["chars"].sum()),
        "chars": n_chars,
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


def char_counts(text: str) -> Counter[str]:
    """Count the characters of a text, like `Counter(text)` but thirty times as fast."""
    counts = np.bincount(code_points(text))
    return Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()})


def letters_by_script(counts: Counter[str]) -> dict[str, int]:
    """Return the number of letters of each script, the script with most letters first, given counts of characters.

    A letter is a character of Unicode's category L. The script is the writing system of a letter, such as Latin or Han
    (Unicode's property Script). Letters that several scripts share have the script Common.
    """
    by_script: Counter[str] = Counter()
    for char, n in counts.items():
        if char.isalpha():
            by_script[str(script_name(script(char)))] += n
    return dict(sorted(by_script.items(), key=lambda item: (-item[1], item[0])))


def percent(part: float) -> str:
    """Format a fraction as a percentage, such as 99.8 %. Round down, so that only 1 becomes 100.0 %."""
    return f"{int(part * 1000) / 10:.1f} %"
