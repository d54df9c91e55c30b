"""reports/corpus.md shows the right numbers, and any text and any names unchanged, as a Markdown parser reads it."""

from collections import Counter

import pandas as pd
from hypothesis import example, given, settings
from lxml import html
from markdown_it import MarkdownIt
from report.strange import TEXTS, strange_texts

from bukva.corpus.cleaning.page import code, page, plain, table
from bukva.corpus.cleaning.rules import visible

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def read(page):
    """Return the rows of all tables of a page, with each cell as text."""
    rows = html.fromstring(f"<div>{PARSER.render(page)}</div>").iter("tr")
    return [[cell.text_content() for cell in row] for row in rows]


@settings(max_examples=30)
@given(strange_texts)
@example("".join(TEXTS))
def test_any_text_is_shown_in_code_in_a_cell_and_in_prose(text):
    rows = read(table(("a", "b", "c"), [(code(text), plain(text), "y")]))
    assert rows[1:] == [[visible(text), visible(text).strip(" "), "y"]]
    shown = html.fromstring(f"<div>{PARSER.render('rules ' + plain(text))}</div>")
    assert shown.text_content().strip() == f"rules {visible(text)}".strip()
    assert [element.tag for element in shown.iter()] == ["div", "p"]


def works_of(rows):
    return pd.DataFrame(rows, columns=["category", "author", "work", "year", "chars"]).astype({"chars": "int64"})


CATEGORIES = ["prose", "poems", "letters"]
MANY = works_of(
    (CATEGORIES[n % 3], f"author {n % 37:02}", f"work {n}", str(1701 + n) if n % 5 else None, 11 + n)
    for n in range(373)
)
TEXT = "Ёлка,\nёлка и ель. " * 7
HAN = "".join(chr(0x4E00 + number) * (1 + number % 13) for number in range(307))


def cleaning_of(works, text, **changes):
    """Return a reports/cleaning.json for works that consist of copies of this text."""
    chars, counts = int(works["chars"].sum()), Counter(text)
    alphabet = {char: n * chars // len(text) or 1 for char, n in counts.most_common(300)}
    rule = {"rule": "invisible", "chars": 3, "lines": 0, "places": 3}
    known = {"rule_set": "literary", "why": "because the test says so", "letters": {"Cyrillic": 90, "Latin": 10}}
    numbers = {"chars_before": chars + 3, "chars": chars, "symbols": len(counts)}
    return known | numbers | {"removed": [rule], "examples": {}, "alphabet": alphabet, **changes}


def section(text, heading):
    _, _, after = text.partition(f"## {heading}\n")
    return after.partition("\n## ")[0]


def test_a_large_corpus_has_tables_of_few_rows_that_add_up():
    cleaning = cleaning_of(MANY, HAN)
    text = page(cleaning, MANY, "author")
    for heading, most in (("Characters by author", 30), ("Symbols", 200)):
        _, *rows = read(section(text, heading))
        assert sum(int(row[2].replace(",", "")) for row in rows) == cleaning["chars"]
        assert len(rows) == most + 1
        assert rows[-1][0].startswith("others (")


def test_strange_examples_are_shown_as_they_are():
    keys = "work", "before", "removed", "after", "replacement"
    examples = [{"line": 7, **dict.fromkeys(keys, text)} for text in TEXTS]
    text = page(cleaning_of(MANY, TEXT, examples={"strange": examples}), MANY, "author")
    assert read(section(text, "Removed by cleaning").partition("### ")[2])[1:] == [
        [visible(text), "7", *[visible(text)] * 4] for text in TEXTS
    ]
