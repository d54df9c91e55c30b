"""A page of Markdown shows any text unchanged. A Markdown parser determines what a reader sees."""

from hypothesis import example, given, settings
from lxml import html
from markdown_it import MarkdownIt
from report.strange import TEXTS, strange_texts

from bukva.corpus.cleaning.page import code, plain, table
from bukva.corpus.cleaning.removals import visible

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
