"""FictionBook 2 (.fb2, and .fb2.zip with one book): a paragraph, a verse or a title is a line.

Notes are left out, and so are the marks that refer to them: in the text they would interrupt a sentence, and at the end
they belong to nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bukva.corpus.sources.formats.base import Text, TextFile, name_of, year_of
from bukva.corpus.sources.formats.lines import Lines
from bukva.corpus.sources.formats.xml import open_xml, words_in, xml_text
from bukva.corpus.sources.formats.zipped import opened_book

if TYPE_CHECKING:
    from lxml.etree import _Element

NOTES = re.compile("note|comment|примеч|коммент", re.IGNORECASE)  # in the name of a body
NOTE = re.compile(r"#(?:n|note|fn|ftn|_ftn|footnote|c|comment)[_-]?\d+")  # the names that programs give to notes
HREF = "{http://www.w3.org/1999/xlink}href"
NAMES = ("first-name", "middle-name", "last-name")


class Fb2Lines(Lines):
    """The text of a book without its description, pictures and notes."""

    blocks = frozenset([
        *["annotation", "body", "cite", "date", "empty-line", "epigraph", "p", "poem", "section", "stanza"],
        *["subtitle", "table", "text-author", "title", "tr", "v"],
    ])  # fmt: skip
    spaces = frozenset(["td", "th"])
    hidden: Mapping[str, str] = {"description": "", "stylesheet": "", "binary": ""}

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:
        if tag == "body" and NOTES.search(attributes.get("name", "")):
            return "bodies of notes"
        if tag == "a" and (attributes.get("type") == "note" or NOTE.fullmatch(attributes.get(HREF, ""))):
            return "references to notes"
        return super().hides(tag, attributes)


def read_fb2(file: TextFile) -> Iterator[Text]:
    """The text of a book, with its title, authors and year of writing."""
    yield _book(file, file.pieces())


def read_fb2_zip(file: TextFile) -> Iterator[Text]:
    """The text of the one book in a zip."""
    yield _book(file, _unzipped(file))


def _unzipped(file: TextFile) -> Iterator[str]:
    with opened_book(file, "an .fb2.zip") as book:
        names = [name for name in book.namelist() if name.lower().endswith(".fb2")]
        if len(names) != 1:
            raise ValueError(f"it has {len(names)} files .fb2, not one")
        yield from file.pieces(lambda: book.open(names[0]))


def _book(file: TextFile, pieces: Iterable[str]) -> Text:
    root, characters = open_xml(file, pieces, "body", ["FictionBook"])
    about = root.find("{*}description/{*}title-info")
    if about is None:
        return Text(xml_text(file, characters, Fb2Lines()))
    date = about.find("{*}date")
    return Text(
        xml_text(file, characters, Fb2Lines()),
        title=name_of(words_in(about.find("{*}book-title"))),
        author=name_of(", ".join(filter(None, map(_author, about.iterfind("{*}author"))))),
        year="" if date is None else year_of(words_in(date), date.get("value")),
    )


def _author(author: "_Element") -> str:
    names = [words_in(author.find(f"{{*}}{name}")) for name in NAMES]
    return " ".join(filter(None, names)) or words_in(author.find("{*}nickname"))
