"""Read FictionBook 2 (.fb2, or .fb2.zip with a single book). Each paragraph, verse and title becomes a line.

Notes and references to notes are left out. A note inside the text would interrupt a sentence, and a note at the end of
the book would have no context.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from bukva.corpus.sources.formats.base import Text, TextFile, metadata_value, year_of
from bukva.corpus.sources.formats.lines import LineCollector
from bukva.corpus.sources.formats.xml import inner_text, open_xml, xml_text
from bukva.corpus.sources.formats.zipped import opened_book

if TYPE_CHECKING:
    from lxml.etree import _Element

# matches the attribute `name` of a body that contains notes
NOTES = re.compile("note|comment|примеч|коммент", re.IGNORECASE)
# targets of links to notes, as various programs name the notes
NOTE = re.compile(r"#(?:n|note|fn|ftn|_ftn|footnote|c|comment)[_-]?\d+")
HREF = "{http://www.w3.org/1999/xlink}href"
NAMES = ("first-name", "middle-name", "last-name")  # elements that make up the name of an author


class Fb2Collector(LineCollector):
    """Collects the text of a FictionBook, without its description, pictures and notes."""

    blocks = frozenset([
        *["annotation", "body", "cite", "date", "empty-line", "epigraph", "p", "poem", "section", "stanza"],
        *["subtitle", "table", "text-author", "title", "tr", "v"],
    ])  # fmt: skip
    spaces = frozenset(["td", "th"])
    hidden: Mapping[str, str] = {"description": "", "stylesheet": "", "binary": ""}

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:
        if tag == "body" and NOTES.search(attributes.get("name", "")):
            return "note sections"
        if tag == "a" and (attributes.get("type") == "note" or NOTE.fullmatch(attributes.get(HREF, ""))):
            return "note references"
        return super().hides(tag, attributes)


def read_fb2(file: TextFile) -> Iterator[Text]:
    """Yield the text of a FictionBook, with its title, authors and year of writing."""
    yield _book(file, file.pieces())


def read_fb2_zip(file: TextFile) -> Iterator[Text]:
    """Yield the text of a zip that contains a single .fb2 file, with its title, authors and year of writing."""
    yield _book(file, _unzipped(file))


def _unzipped(file: TextFile) -> Iterator[str]:
    with opened_book(file, "an .fb2.zip") as book:
        names = [name for name in book.namelist() if name.lower().endswith(".fb2")]
        if len(names) != 1:
            raise ValueError(f"it contains {len(names)} .fb2 files, not one")
        yield from file.pieces(lambda: book.open(names[0]))


def _book(file: TextFile, pieces: Iterable[str]) -> Text:
    root, characters = open_xml(file, pieces, "body", ["FictionBook"])
    about = root.find("{*}description/{*}title-info")
    if about is None:
        return Text(xml_text(file, characters, Fb2Collector()))
    date = about.find("{*}date")
    return Text(
        xml_text(file, characters, Fb2Collector()),
        title=metadata_value(inner_text(about.find("{*}book-title"))),
        author=metadata_value(", ".join(filter(None, map(_author, about.iterfind("{*}author"))))),
        year="" if date is None else year_of(inner_text(date), date.get("value")),
    )


def _author(author: "_Element") -> str:
    names = [inner_text(author.find(f"{{*}}{name}")) for name in NAMES]
    return " ".join(filter(None, names)) or inner_text(author.find("{*}nickname"))
