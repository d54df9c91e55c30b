"""Read EPUB, a zip of XHTML chapters. A list in the book, the spine, gives the order of the chapters.

Entities that the XML of a book declares are not expanded, and nothing is fetched from the network.
"""

import io
import posixpath
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zipfile import ZipFile

from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile, metadata_value, year_of
from bukva.corpus.sources.formats.encodings import BadEncodingError, decode, detect_encoding
from bukva.corpus.sources.formats.markup import html_text
from bukva.corpus.sources.formats.xml import parse_small_xml
from bukva.corpus.sources.formats.zipped import opened_book, read_part

if TYPE_CHECKING:
    from lxml.etree import _Element

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
CHAPTER_TYPES = {"application/xhtml+xml", "text/html"}
# A date in EPUB 2 has an attribute `event`. Dates with one of these events give the year of the work. A date without an
# event says when the file was made.
WRITTEN = ("creation", "original-publication")
EVENT, ROLE = ("{http://www.idpf.org/2007/opf}" + name for name in ("event", "role"))


def read_epub(file: TextFile) -> Iterator[Text]:
    """Yield the text of a book, with its title, authors and year. Each piece of the text is a chapter."""
    with opened_book(file, "an epub") as book:
        package = _package(book)[1]
    creators = package.iterfind("{*}metadata/{*}creator")
    authors = [creator for creator in creators if creator.get(ROLE, "aut") == "aut"]
    dates = [date.text for date in package.iterfind("{*}metadata/{*}date") if date.get(EVENT) in WRITTEN]
    yield Text(
        _chapters(file),
        title=metadata_value(package.findtext("{*}metadata/{*}title")),
        author=metadata_value(", ".join(author.text or "" for author in authors)),
        year=year_of(*dates),
    )


def _chapters(file: TextFile) -> Iterator[str]:
    """Yield the text of each chapter."""
    left_out = Counter[str]()
    missing: list[str] = []
    with opened_book(file, "an epub") as book:
        present = set(book.namelist())
        for name in _spine(book):
            if name not in present:
                missing.append(name)
                continue
            raw = read_part(book, name)
            try:
                html = "".join(decode(io.BytesIO(raw), detect_encoding(partial(io.BytesIO, raw))))
            except BadEncodingError as error:
                if ENCRYPTION in present and name in unquote(read_part(book, ENCRYPTION).decode(errors="replace")):
                    raise BadTextError(
                        file.display_name, f"{name} is encrypted", "Get a file without copy protection"
                    ) from None
                raise ValueError(f"{name}: {error}") from None
            yield html_text(html, left_out)
    file.note_left_out(left_out)
    if missing:
        file.note("epubs_without_all_chapters", ", ".join(missing))


def _package(book: ZipFile) -> "tuple[str, _Element]":
    """Return the path and the root element of the package document, the XML file that describes the book."""
    rootfile = parse_small_xml(read_part(book, CONTAINER)).find(".//{*}rootfile")
    if rootfile is None:
        raise ValueError("no rootfile in container.xml")
    name = rootfile.get("full-path", "")
    return name, parse_small_xml(read_part(book, name))


def _spine(book: ZipFile) -> Iterator[str]:
    """Yield the paths of the chapters in reading order, without the table of contents."""
    package_name, package = _package(book)
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None:
            yield f"idref {reference.get('idref')}"
        elif item.get("media-type") in CHAPTER_TYPES and "nav" not in item.get("properties", "").split():
            name = posixpath.join(posixpath.dirname(package_name), unquote(item.get("href", "")))
            yield posixpath.normpath(name)
