"""Any text is shown in a page of Markdown as it is; a parser of Markdown says what a reader sees."""

import pytest
from hypothesis import example, given
from lxml import html
from markdown_it import MarkdownIt
from report.strange import TEXTS, strange_texts

from bukva.corpus.cleaning.removals import visible
from bukva.report.markdown import code, plain, table

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def read(page):
    """The rows of all tables of a page, each cell as its text."""
    rows = html.fromstring(f"<div>{PARSER.render(page)}</div>").iter("tr")
    return [[cell.text_content() for cell in row] for row in rows]


@given(strange_texts)
@example("".join(TEXTS))
def test_a_cell_of_code_shows_every_character(text):
    assert read(table(("a", "b", "c"), [("x", code(text), "y")]))[1:] == [["x", visible(text), "y"]]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_each_strange_text_is_shown_in_code_and_in_prose(text):
    cells = read(table(("a", "b"), [(code(text), plain(text))]))[1]
    assert cells == [visible(text), visible(text).strip(" ")]


@given(strange_texts)
def test_a_plain_cell_shows_every_character_but_spaces_at_its_ends(text):
    assert read(table(("a", "b"), [(plain(text), "y")]))[1:] == [[visible(text).strip(" "), "y"]]


@given(strange_texts)
def test_a_plain_text_after_a_word_is_prose(text):
    found = html.fromstring(f"<div>{PARSER.render('rules ' + plain(text))}</div>")
    assert found.text_content().strip() == f"rules {visible(text)}".strip()
    assert [element.tag for element in found.iter()] == ["div", "p"]


def test_columns_of_numbers_stand_to_the_right():
    assert table(("a", "#b"), [("x", "1"), ("y", "23")]) == "| a | b |\n| --- | ---: |\n| x | 1 |\n| y | 23 |"
