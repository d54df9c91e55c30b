"""The page of the corpus: what it is, whose text it is, and what cleaning removed from it."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bukva.corpus.cleaning.removals import visible
from bukva.corpus.splits import balance
from bukva.text.collection import MISSING

if TYPE_CHECKING:
    import pandas as pd

SPECIAL = re.compile(r"[\\`*_~\[\]<>|&$#]")  # of Markdown
MOST_LABELS = 30  # authors, categories or decades of a table
MOST_SYMBOLS = 200
SCRIPTS = 5
CARRIER = "\u25cc"  # the dotted circle that carries a mark
CONTROLS = {"\t": "TABULATOR", "\n": "LINE FEED", "\r": "CARRIAGE RETURN"}  # Unicode has no names for them
KINDS = {"Cc": "control character", "Co": "private use", "Cn": "not assigned"}
COUNTS = ("chars", "lines", "places")  # of what a rule removed


NOT_GIVEN = "not given"  # the author, category or year of a work

Numbers = list[int]  # of one label: the characters first
Rows = list[tuple[str, Numbers]]


def page(cleaning: dict[str, Any], works: "pd.DataFrame", author: str) -> str:
    """reports/corpus.md.

    Args:
        cleaning: reports/cleaning.json.
        works: the table of the cleaned collection.
        author: what its authors are called.
    """
    parts = (
        _corpus(cleaning, works, author),
        _by_label(works, author),
        _removed(cleaning),
        _lost_most(cleaning),
        _symbols(cleaning),
    )
    return "\n\n".join(block for part in parts for block in part) + "\n"


def _corpus(cleaning: dict[str, Any], works: "pd.DataFrame", author: str) -> Iterator[str]:
    yield "# Corpus"
    chars, before = cleaning["chars"], cleaning["chars_before"]
    rows = [
        ("works", f"{len(works):,}"),
        (f"{author}s", _distinct(works["author"])),
        ("categories", _distinct(works["category"])),
        ("years", _years(works["year"])),
        ("characters", f"{chars:,} ({_share(chars, before)} of the {before:,} before cleaning)"),
        ("symbols", f"{cleaning['symbols']:,} different characters"),
        ("letters", _letters(cleaning["letters"])),
        ("cleaning rules", f"{cleaning['rule_set']}, {plain(cleaning['why'])}"),
    ]
    yield table(("", ""), rows)
    yield "All numbers but those of removed text are of the cleaned text."


def _distinct(labels: "pd.Series[str]") -> str:
    known = labels[labels != MISSING]
    return _with_missing(f"{known.nunique():,}", len(labels) - len(known), len(labels))


def _years(years: "pd.Series[str]") -> str:
    known = sorted(decade for decade in balance.decades(years) if decade != MISSING)
    span = " to ".join(dict.fromkeys((known[0], known[-1]))) if known else ""
    return _with_missing(span, len(years) - len(known), len(years))


def _with_missing(found: str, missing: int, n: int) -> str:
    """What is known of n works, of some of which it is not given."""
    if missing == n:
        return NOT_GIVEN
    return f"{found}; {NOT_GIVEN} for {missing:,} of the {n:,} works" if missing else found


def _letters(letters: dict[str, int]) -> str:
    total = sum(letters.values())
    rows = largest({script: [n] for script, n in letters.items()}, SCRIPTS)
    return ", ".join(f"{script} {_share(n, total)}" for script, (n,) in rows) or "none"


def _by_label(works: "pd.DataFrame", author: str) -> Iterator[str]:
    chars = works["chars"].tolist()
    for kind, labels in balance.labels(works).items():
        rows = largest(works_and_chars(labels, chars), MOST_LABELS, by_name=kind == "decade")
        cells = ((plain(name), f"{n_works:,}", f"{n:,}", _share(n, sum(chars))) for name, (n, n_works) in rows)
        word = author if kind == "author" else kind
        yield f"## Characters by {word}"
        yield table((word, "#works", "#characters", "#share"), cells)


def _removed(cleaning: dict[str, Any]) -> Iterator[str]:
    rules = cleaning["removed"]
    rows = [(code(rule["rule"]), *(f"{rule[key]:,}" for key in COUNTS)) for rule in rules]
    yield "## Removed by cleaning"
    yield "Characters include line ends, and are negative where a rule added some; places are how often a rule acted."
    sums = (f"{sum(rule[key] for rule in rules):,}" for key in COUNTS)
    yield table(("rule", "#characters", "#lines", "#places"), [*rows, ("all", *sums)])
    if cleaning["examples"]:
        yield "Examples, with the text before and after them in their line. `<U+000A>` is the end of a line."
    for rule, examples in cleaning["examples"].items():
        yield f"### {code(rule)}"
        yield _examples(examples)


def _examples(examples: list[dict[str, Any]]) -> str:
    keys = {"before": "before", "removed": "removed", "after": "after"}
    if any("replacement" in one for one in examples):
        keys = {"before": "before", "removed": "removed", "replacement": "put there", "after": "after"}
    rows = ([code(one["work"]), f"{one['line']:,}", *(code(one.get(key, "")) for key in keys)] for one in examples)
    return table(("work", "#line", *keys.values()), rows)


def _lost_most(cleaning: dict[str, Any]) -> Iterator[str]:
    if cleaning["lost_most"]:
        yield "## Works that lost most"
        works = cleaning["lost_most"].items()
        rows = ((code(work), f"{lost['chars']:,}", f"{100 * lost['share']:.1f} %") for work, lost in works)
        yield table(("work", "#characters", "#share of the work"), rows)


def _symbols(cleaning: dict[str, Any]) -> Iterator[str]:
    chars = cleaning["chars"]
    counted = list(cleaning["alphabet"].items())[:MOST_SYMBOLS]
    rows = [(code(_on_carrier(char)), _name(char), f"{n:,}", _share(n, chars, 3)) for char, n in counted]
    if rest := cleaning["symbols"] - len(counted):
        others = chars - sum(n for _, n in counted)
        rows.append((f"others ({rest:,})", "", f"{others:,}", _share(others, chars, 3)))
    yield "## Symbols"
    yield table(("symbol", "name", "#count", "#share"), rows)


def _on_carrier(char: str) -> str:
    """A character that can be seen alone: a mark stands on a dotted circle."""
    return CARRIER + char if unicodedata.category(char).startswith("M") else char


def _name(char: str) -> str:
    name = unicodedata.name(char, "") or CONTROLS.get(char) or KINDS.get(unicodedata.category(char), "without a name")
    return f"U+{ord(char):04X} {name}"


def _share(part: int, whole: int, digits: int = 1) -> str:
    """A share in per cent, rounded; a part is shown neither as nothing nor as all."""
    share, least = round(100 * part / max(1, whole), digits), 10**-digits
    if part and not share:
        return f"< {least:.{digits}f} %"
    return f"> {100 - least:.{digits}f} %" if share == 100 and part < whole else f"{share:.{digits}f} %"


def works_and_chars(labels: Iterable[str], chars: Iterable[int]) -> dict[str, Numbers]:
    """label -> characters and works."""
    sums: dict[str, Numbers] = {}
    for label, n in zip(labels, chars, strict=True):
        numbers = sums.setdefault(label, [0, 0])
        numbers[0] += n
        numbers[1] += 1
    return sums


def largest(sums: Mapping[str, Sequence[int]], most: int, *, by_name: bool = False) -> Rows:
    """The labels with most characters and one row for all others; the largest first, or by name."""
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))
    kept, rest = ordered[:most], ordered[most:]
    if by_name:
        kept.sort(key=lambda item: (item[0] == MISSING, item[0]))
    rows = [(NOT_GIVEN if label == MISSING else label, list(numbers)) for label, numbers in kept]
    if rest:
        rows.append((f"others ({len(rest)})", [sum(column) for column in zip(*(of for _, of in rest), strict=True)]))
    return rows


# ---- Markdown that may hold any text: what people call their works, and what rules removed from them


def plain(text: str) -> str:
    """Any text on one line, shown as it is."""
    return SPECIAL.sub(r"\\\g<0>", visible(text))


def code(text: str) -> str:
    """Any text as code in a cell of a table, its white space included; an empty text is an empty cell."""
    shown = visible(text).replace("|", "\\|")
    if not shown:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    first, last = shown[0], shown[-1]
    is_cut = first == last == " " and not shown.isspace()  # Markdown takes a space from both ends
    pad = " " if "`" in (first, last) or is_cut else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown; columns of numbers begin with `#`, and stand to the right."""
    titles = [column.removeprefix("#") for column in columns]
    rule = ["---:" if column.startswith("#") else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))
