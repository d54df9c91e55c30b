"""Text that publishers put before and after a book is cut, in old and new wording. The book itself stays whole."""

import pytest
from corpus.cleaning.cleaned import NOTHING, clean
from works import saved, texts_in

from bukva.core.schema import Clean
from bukva.corpus.cleaning.clean import clean_collection
from bukva.corpus.cleaning.rule_sets import chosen_rules, rule_set
from bukva.corpus.sources.formats.pages import html_text

HEADER = "The Project Gutenberg EBook of A Story, by Nobody\n\nThis eBook is for the use of anyone anywhere.\n\n"
LICENCE = "\nSection 1. General Terms of Use\n\n1.A. By reading any part of this work you agree. " * 40 + "\n"
BOOK = "\nCHAPTER I\n\nSomebody walked through the town, and met nobody at all.\n\n"
RUSSIAN = "\nГЛАВА ПЕРВАЯ\n\nКто-то прошёл через весь город и никого не встретил.\n\n" * 30


def cut(text, name="publishers"):
    """Return the text after cleaning, and the counts of rule gutenberg."""
    cleaned, removed = clean(text, rule_set(name))
    return cleaned, removed["gutenberg"]


STARTS = [
    "*** START OF THE PROJECT GUTENBERG EBOOK A STORY ***",
    "*** START OF THIS PROJECT GUTENBERG EBOOK A STORY ***",
    "** START OF THIS PROJECT GUTENBERG EBOOK A STORY **",
    "*** START OF THE PROJECT GUTENBERG ETEXT A STORY ***",
    "*** START OF THE COPYRIGHTED PROJECT GUTENBERG EBOOK A STORY ***",
    "    *** START OF THIS PROJECT GUTENBERG EBOOK A STORY",
    "*** START OF THE PROJECT GUTENBERG EBOOK A STORY OF SOMEBODY WHO WALKED\nTHROUGH THE TOWN AND MET\nNOBODY ***",
    "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
    "*END* THE SMALL PRINT! FOR COPYRIGHT PROTECTED ETEXTS*Ver.07.02.92*END*",
]
ENDS = [
    "*** END OF THE PROJECT GUTENBERG EBOOK A STORY ***",
    "  *** END OF THE PROJECT GUTENBERG EBOOK A STORY OF SOMEBODY WHO WALKED\nTHROUGH THE TOWN ***",
    "End of the Project Gutenberg EBook of A Story, by Nobody\n\n*** END OF THIS PROJECT GUTENBERG EBOOK A STORY ***",
    "End of this Project Gutenberg eBook of A Story",
    "End of Project Gutenberg's A Story, by Nobody",
    "End of Project Gutenberg’s A Story, by Nobody",
    "END OF PROJECT GUTENBERG ETEXT OF A STORY",
]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("end", ENDS)
def test_a_book_between_marks_of_any_wording_stays_whole_and_nothing_else_does(start, end):
    assert cut(f"{HEADER}{start}\n{BOOK}{end}\n{LICENCE}")[0] == BOOK


@pytest.mark.parametrize("name", ["publishers", "literary", "notes"])
def test_the_licence_is_counted_under_each_rule_set_and_no_other_rule_sees_it(name):
    text = f"{HEADER}{STARTS[0]}\n{RUSSIAN}{ENDS[0]}\n{LICENCE}".replace("\n", "\r\n")
    kept, removed = cut(text, name)
    assert kept == clean(RUSSIAN, rule_set(name))[0]
    outside = [HEADER, f"{STARTS[0]}\n", f"{ENDS[0]}\n", LICENCE]
    lines = sum(part.count("\n") for part in outside)
    assert removed == (sum(map(len, outside)), lines, lines)


def test_a_text_that_speaks_of_project_gutenberg_or_quotes_its_marks_in_a_line_stays_whole():
    novel = (
        "She had found it at Project Gutenberg, and that was the\n"
        "End of the Project. Gutenberg himself would have laughed at the\n"
        "end of the Project Gutenberg for which he worked.\n"
        'start = "*** START OF THE PROJECT GUTENBERG EBOOK"\n'
        "It said: *** END OF THE PROJECT GUTENBERG EBOOK ***.\n"
        "*** START: FULL LICENSE ***\n*\n***\n"
    )
    assert cut(novel) == (novel, NOTHING)


def test_of_several_books_in_one_file_each_stays_whole():
    one = f"{HEADER}{STARTS[0]}\n{BOOK}{ENDS[2]}\n{LICENCE}"
    assert cut(3 * one)[0] == 3 * BOOK
    assert cut(f"{BOOK}{ENDS[0]}\n{LICENCE}{one}")[0] == 2 * BOOK
    without_end = f"{HEADER}{STARTS[0]}\n{BOOK}"
    assert cut(without_end)[0] == cut(f"{BOOK}{ENDS[0]}\n{LICENCE}")[0] == BOOK  # one mark is enough
    assert cut(2 * without_end)[0] == BOOK + HEADER + BOOK  # there is no mark at the end of the first book


def test_an_html_edition_is_cut_as_the_plain_text_is():
    story = "<h1>A Story</h1><p>Somebody walked\nthrough the town.</p>"
    page = (
        "<html><head><title>A Story</title></head><body><section id='pg-header'><p>This ebook is for the use of anyone"
        "\nanywhere.</p><div>\n<span>*** START OF THE PROJECT GUTENBERG EBOOK\nA STORY ***</span></div></section>"
        f"{story}<section id='pg-footer'><div><span>{ENDS[0]}</span></div><p>Updated editions.</p></section></body>"
    )
    old = f"<html><body><pre>\nEBook\n\n{STARTS[1]}\n</pre>{story}<pre>\n{ENDS[2]}\n</pre></body></html>"
    for html in (page, old):
        assert cut(html_text(html))[0].strip() == "A Story\nSomebody walked through the town."


def test_the_lines_of_a_work_that_is_cut_keep_their_numbers(tmp_path):
    title = f"{STARTS[6]}\n"
    book = "Somebody walked on\u00ad and on.\n" * 300
    text = f"{20 * HEADER}{title}{book}{ENDS[0]}\n{LICENCE}{HEADER}{title}{book}{ENDS[0]}\n{LICENCE}"
    saved(tmp_path / "raw", {"a": text, "b": book, "c": ""})
    report = clean_collection(tmp_path / "raw", tmp_path / "clean", rule_set("literary"), "")
    kept = book.replace("\u00ad", "")
    assert list(texts_in(tmp_path / "clean").values()) == [2 * kept, kept, ""]
    removed = {rule["rule"]: rule["chars"] for rule in report["removed"]}
    assert removed["gutenberg"] == len(text) - 2 * len(book)
    assert report["chars_before"] - report["chars"] == sum(removed.values())
    first, *_ = report["examples"]["invisible"]
    assert (first["work"], first["line"]) == ("-/-/a", (20 * HEADER + title).count("\n") + 1)


def test_auto_judges_a_russian_book_without_the_english_licence(tmp_path):
    text = f"{HEADER}{STARTS[0]}\n{RUSSIAN}{ENDS[0]}\n{LICENCE}"
    saved(tmp_path / "raw", {"a": text})
    assert len(LICENCE) > len(RUSSIAN)
    rules, why = chosen_rules(Clean(rules="auto", file="-"), tmp_path / "raw")
    assert (rules.name, why) == ("notes", "because 100.0 % of the letters are Cyrillic (clean.rules auto)")
