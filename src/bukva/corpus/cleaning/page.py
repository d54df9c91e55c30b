"""Format the page reports/corpus.md, which describes the cleaned corpus and the text that cleaning removed."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bukva.corpus.cleaning.rules import COUNTS, visible
from bukva.text.collection import MISSING, decade

if TYPE_CHECKING:
    import pandas as pd

SPECIAL = re.compile(r"[\\`*_~\[\]<>|&$#]")  # characters with a meaning in Markdown
MOST_LABELS = 30  # maximum number of authors, categories or decades in a table; one more row sums up the others
MOST_SYMBOLS = 200  # maximum number of characters in the table of symbols
SCRIPTS = 5  # maximum number of scripts that the page names
NOT_GIVEN = "not given"  # label of works without author, category or year


def page(cleaning: dict[str, Any], works: "pd.DataFrame", author: str) -> str:
    """Return the content of reports/corpus.md, from that of reports/cleaning.json and the table of cleaned works.

    `author` is what the folder above a work is called in this corpus: "author" or "collection".
    """
    return "\n\n".join(_blocks(cleaning, works, author)) + "\n"


def _blocks(cleaning: dict[str, Any], works: "pd.DataFrame", author: str) -> Iterator[str]:
    chars, before, letters = cleaning["chars"], cleaning["chars_before"], cleaning["letters"]
    scripts = [f"{script} {_share(n, sum(letters.values()))}" for script, n in [*letters.items()][:SCRIPTS]]
    facts = {
        "works": f"{len(works):,}",
        "characters": f"{chars:,} ({_share(chars, before)} of the {before:,} before cleaning)",
        "symbols": f"{cleaning['symbols']:,} different characters",
        "letters": ", ".join(scripts) or "none",
        "cleaning rules": f"{cleaning['rule_set']}, {plain(cleaning['why'])}",
    }
    yield "# Corpus"
    yield table(("", ""), facts.items())
    yield "All numbers but those of removed text are of the cleaned text."
    labels = {author: works["author"], "category": works["category"], "decade": works["year"].map(decade)}
    missing = [word for word, column in labels.items() if (column == MISSING).all()]
    for word in [word for word in labels if word not in missing]:
        yield f"## Characters by {word}"
        yield _by_label(works["chars"], labels[word], word)
    if missing:
        why = "folders (category/author/work.txt) and the years of an info.csv would give them"
        yield f"Not given for any work: {', '.join(missing)}; {why}."
    rules = cleaning["removed"]
    rows = [(code(rule["rule"]), *(f"{rule[key]:,}" for key in COUNTS)) for rule in rules]
    sums = (f"{sum(rule[key] for rule in rules):,}" for key in COUNTS)
    yield "## Removed by cleaning"
    yield "Characters include line ends, and are negative where a rule added some; places are how often a rule acted."
    yield table(("rule", "#characters", "#lines", "#places"), [*rows, ("all", *sums)])
    if cleaning["examples"]:
        yield "Examples, with the text before and after them in their line. `<U+000A>` is the end of a line."
    for rule, examples in cleaning["examples"].items():
        yield f"### {code(rule)}"
        keys = ("before", "removed", "replacement", "after")
        cells = ([code(one["work"]), f"{one['line']:,}", *(code(one.get(key, "")) for key in keys)] for one in examples)
        yield table(("work", "#line", "before", "removed", "put there", "after"), cells)
    counted = list(cleaning["alphabet"].items())[:MOST_SYMBOLS]
    symbols = [
        (code(char), f"U+{ord(char):04X} {unicodedata.name(char, '')}", f"{n:,}", _share(n, chars, 3))
        for char, n in counted
    ]
    if rest := cleaning["symbols"] - len(counted):
        others = chars - sum(n for _, n in counted)
        symbols.append((f"others ({rest:,})", "", f"{others:,}", _share(others, chars, 3)))
    yield "## Symbols"
    yield table(("symbol", "name", "#count", "#share"), symbols)


def _by_label(chars: "pd.Series[int]", labels: "pd.Series[str]", word: str) -> str:
    sums = chars.groupby(labels).agg(["count", "sum"]).sort_values("sum", ascending=False, kind="stable")
    most, others = sums[:MOST_LABELS], sums[MOST_LABELS:]
    if word == "decade":
        most = most.sort_index()
    rows = [(NOT_GIVEN if label == MISSING else plain(label), n, total) for label, n, total in most.itertuples()]
    if len(others):
        rows.append((f"others ({len(others)})", *others.sum()))
    cells = ((name, f"{n:,}", f"{total:,}", _share(total, chars.sum())) for name, n, total in rows)
    return table((word, "#works", "#characters", "#share"), cells)


def _share(part: int, whole: int, digits: int = 1) -> str:
    return f"{100 * part / max(1, whole):.{digits}f} %"


# ---- conversion of arbitrary text, such as names of works and removed passages, to Markdown


def plain(text: str) -> str:
    """Return Markdown that shows a text unchanged and on one line. Invisible characters are shown as code points."""
    return SPECIAL.sub(r"\\\g<0>", visible(text))


def code(text: str) -> str:
    """Return Markdown that shows a text as code in a table cell, with its white space. An empty text gives ""."""
    shown = visible(text).replace("|", "\\|")
    if not shown:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    first, last = shown[0], shown[-1]
    is_cut = first == last == " " and not shown.isspace()  # Markdown removes one space from each end of the code
    pad = " " if "`" in (first, last) or is_cut else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. The names of columns and the cells must already be Markdown.

    A column whose name begins with `#` is aligned to the right, and is shown without the `#`.
    """
    titles = [column.removeprefix("#") for column in columns]
    rule = ["---:" if column.startswith("#") else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))
