"""Any text is shown in a page of Markdown as it is; a parser of Markdown says what a reader sees."""

from hypothesis import example, given, settings
from lxml import html
from markdown_it import MarkdownIt
from report.strange import TEXTS, strange_texts

from bukva.corpus.cleaning.page import code, plain, table
from bukva.corpus.cleaning.removals import visible

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def read(page):
    """The rows of all tables of a page, each cell as its text."""
    rows = html.fromstring(f"<div>{PARSER.render(page)}</div>").iter("tr")
    return [[cell.text_content() for cell in row] for row in rows]


@settings(max_examples=30)
@given(strange_texts)
@example("".join(TEXTS))
def test_any_text_is_shown_in_code_in_a_cell_and_in_prose(text):
    rows = read(table(("a", "b", "c"), [(code(text), plain(text), "y")]))
    assert rows[1:] == [[visible(text), visible(text).strip(" "), "y"]]
    found = html.fromstring(f"<div>{PARSER.render('rules ' + plain(text))}</div>")
    assert found.text_content().strip() == f"rules {visible(text)}".strip()
    assert [element.tag for element in found.iter()] == ["div", "p"]
