"""EPUB: a zip of XHTML chapters, in the order of the book's spine.

Its XML is read without entities of its own and without the network.
"""

import io
import posixpath
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zipfile import ZipFile

from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile, name_of, year_of
from bukva.corpus.sources.formats.encodings import BadEncodingError, decoded, detected
from bukva.corpus.sources.formats.markup import html_text
from bukva.corpus.sources.formats.xml import small_xml
from bukva.corpus.sources.formats.zipped import opened_book, part

if TYPE_CHECKING:
    from lxml.etree import _Element

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
CHAPTER_TYPES = {"application/xhtml+xml", "text/html"}
WRITTEN = ("creation", "original-publication")  # events of EPUB 2; a date without an event says when the file was made
EVENT, ROLE = ("{http://www.idpf.org/2007/opf}" + name for name in ("event", "role"))


def read_epub(file: TextFile) -> Iterator[Text]:
    """The text of a book, a chapter at a time, and its title and authors."""
    with opened_book(file, "an epub") as book:
        package = _package(book)[1]
    authors = [each for each in package.iterfind("{*}metadata/{*}creator") if each.get(ROLE, "aut") == "aut"]
    dates = [date.text for date in package.iterfind("{*}metadata/{*}date") if date.get(EVENT) in WRITTEN]
    yield Text(
        _chapters(file),
        title=name_of(package.findtext("{*}metadata/{*}title")),
        author=name_of(", ".join(author.text or "" for author in authors)),
        year=year_of(*dates),
    )


def _chapters(file: TextFile) -> Iterator[str]:
    """The chapters that have text. Chapters that the book names but does not contain are reported.

    Raises:
        BadTextError: the file is damaged, no epub, or encrypted.
        BukvaError: it exceeds a bound of archives.
    """
    left_out = Counter[str]()
    missing: list[str] = []
    with opened_book(file, "an epub") as book:
        present = set(book.namelist())
        for name in _spine(book):
            if name not in present:
                missing.append(name)
                continue
            raw = part(book, name)
            try:
                html = "".join(decoded(io.BytesIO(raw), detected(partial(io.BytesIO, raw))))
            except BadEncodingError as error:
                if ENCRYPTION in present and name in unquote(part(book, ENCRYPTION).decode(errors="replace")):
                    raise BadTextError(file.place, f"{name} is encrypted", "get it without copy protection") from None
                raise ValueError(f"{name}: {error}") from None
            yield html_text(html, left_out)
    file.note_left_out(left_out)
    if missing:
        file.note("epubs_without_all_chapters", ", ".join(missing))


def _package(book: ZipFile) -> "tuple[str, _Element]":
    """The name and the content of the part that describes the book."""
    rootfile = small_xml(part(book, CONTAINER)).find(".//{*}rootfile")
    if rootfile is None:
        raise ValueError("no rootfile in container.xml")
    name = rootfile.get("full-path", "")
    return name, small_xml(part(book, name))


def _spine(book: ZipFile) -> Iterator[str]:
    """The names of the chapters in the order of reading, without the table of contents.

    A chapter that the list of parts does not have is named by its reference.
    """
    package_name, package = _package(book)
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None:
            yield f"idref {reference.get('idref')}"
        elif item.get("media-type") in CHAPTER_TYPES and "nav" not in item.get("properties", "").split():
            name = posixpath.join(posixpath.dirname(package_name), unquote(item.get("href", "")))
            yield posixpath.normpath(name)
