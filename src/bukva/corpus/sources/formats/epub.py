"""EPUB: a zip of XHTML chapters, in the order of the book's spine. Nothing is unpacked to the disk.

An epub may come from anywhere, so the bounds of bukva.corpus.sources.archives hold; its XML is read without entities of
its own and without the network.
"""

import io
import posixpath
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zipfile import ZipFile

from bukva.corpus.sources.archives import DAMAGED, opened_zip
from bukva.corpus.sources.formats.base import MAX_WHOLE_BYTES, BadTextError, Text, TextFile
from bukva.corpus.sources.formats.encodings import BadEncodingError, decoded, detected
from bukva.corpus.sources.formats.markup import html_text

if TYPE_CHECKING:
    from lxml.etree import _Element

CONTAINER = "META-INF/container.xml"
CHAPTER_TYPES = {"application/xhtml+xml", "text/html"}

# an epub begins with an uncompressed entry `mimetype`, so that its type is at this place (EPUB 3.3, section 4.3)
TYPE_OFFSET, TYPE = 30, b"mimetypeapplication/epub+zip"


def is_epub(path: Path) -> bool:
    """Whether a file starts like an epub; its name does not matter."""
    with path.open("rb") as file:
        return file.read(TYPE_OFFSET + len(TYPE))[TYPE_OFFSET:] == TYPE


def read_epub(file: TextFile) -> Iterator[Text]:
    """The text of a book, a chapter at a time."""
    yield Text(_chapters(file))


def _chapters(file: TextFile) -> Iterator[str]:
    """The chapters that have text.

    Raises:
        BadTextError: the file is damaged, no epub, or encrypted.
        BukvaError: it exceeds a bound of archives.
    """
    try:
        with opened_zip(file.path) as book:
            for name in _spine(book):
                raw = _content(book, name)
                encoding = detected(partial(io.BytesIO, raw))
                yield html_text("".join(decoded(io.BytesIO(raw), encoding)))
    except OSError as error:
        raise file.unreadable(error) from None
    except (*DAMAGED, BadEncodingError) as error:
        why = f"damaged, or not an epub ({' '.join(str(error).split())[:100]})"
        raise BadTextError(file.place, why, "get the file again, without copy protection") from None


def _spine(book: ZipFile) -> Iterator[str]:
    """The names of the chapters in the order of reading, without the table of contents."""
    rootfile = _xml(_content(book, CONTAINER)).find(".//{*}rootfile")
    if rootfile is None:
        raise ValueError("no rootfile in container.xml")
    package_name = rootfile.get("full-path", "")
    package = _xml(_content(book, package_name))
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items[reference.get("idref")]
        if item.get("media-type") in CHAPTER_TYPES and "nav" not in item.get("properties", "").split():
            name = posixpath.join(posixpath.dirname(package_name), unquote(item.get("href", "")))
            yield posixpath.normpath(name)


def _content(book: ZipFile, name: str) -> bytes:
    with book.open(name) as content:
        raw = content.read(MAX_WHOLE_BYTES + 1)
    if len(raw) > MAX_WHOLE_BYTES:
        raise ValueError(f"{name} has more than {MAX_WHOLE_BYTES} bytes")
    return raw


def _xml(raw: bytes) -> "_Element":
    from lxml import etree

    try:
        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise ValueError("not XML")
    return root
