"""EPUB: a zip of XHTML chapters, in the order of the book's spine. Nothing is unpacked to the disk.

An epub may come from anywhere, so the bounds of bukva.corpus.sources.archives hold; its XML is read without entities of
its own and without the network.
"""

import io
import posixpath
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote

from bukva.corpus.sources.archives import DAMAGED, opened_zip
from bukva.corpus.sources.formats.base import MAX_WHOLE_BYTES, Text, TextFile, UnreadableError
from bukva.corpus.sources.formats.encodings import UnknownEncodingError, decoded, detected
from bukva.corpus.sources.formats.markup import html_text

if TYPE_CHECKING:
    from lxml.etree import _Element

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
CHAPTER_TYPES = {"application/xhtml+xml", "text/html"}

# an epub begins with an uncompressed entry `mimetype`, so that its type is at this place (EPUB 3.3, section 4.3)
TYPE_OFFSET, TYPE = 30, b"mimetypeapplication/epub+zip"

Entries = Mapping[str, Callable[[], IO[bytes]]]


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
        UnreadableError: the file is damaged, no epub, or protected.
        BukvaError: it exceeds a bound of archives.
    """
    try:
        with opened_zip(file.path) as entries:
            protected = _protected(entries)
            for name in _spine(entries):
                if name in protected:
                    why = f"chapter {name} is encrypted"
                    raise UnreadableError(file.place, why, "only a book without copy protection can be read")
                yield html_text(_decoded(_content(entries, name)))
    except OSError as error:
        raise file.unreadable(error) from None
    except (*DAMAGED, UnknownEncodingError) as error:
        why = f"damaged, or not an epub ({' '.join(str(error).split())[:100]})"
        raise UnreadableError(file.place, why, "get the file again") from None


def _spine(entries: Entries) -> Iterator[str]:
    """The names of the chapters in the order of reading, without the table of contents."""
    rootfile = _xml(_content(entries, CONTAINER)).find(".//{*}rootfile")
    if rootfile is None:
        raise ValueError("no rootfile in container.xml")
    package_name = rootfile.get("full-path", "")
    package = _xml(_content(entries, package_name))
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items[reference.get("idref")]
        if item.get("media-type") in CHAPTER_TYPES and "nav" not in item.get("properties", "").split():
            yield _path(posixpath.dirname(package_name), item.get("href", ""))


def _protected(entries: Entries) -> set[str]:
    """The names of the encrypted entries; often only fonts are."""
    if ENCRYPTION not in entries:
        return set()
    references = _xml(_content(entries, ENCRYPTION)).iterfind(".//{*}CipherReference")
    return {_path("", reference.get("URI", "")) for reference in references}


def _path(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href)))


def _content(entries: Entries, name: str) -> bytes:
    with entries[name]() as content:
        raw = content.read(MAX_WHOLE_BYTES + 1)
    if len(raw) > MAX_WHOLE_BYTES:
        raise ValueError(f"{name} has more than {MAX_WHOLE_BYTES} bytes")
    return raw


def _decoded(raw: bytes) -> str:
    return "".join(decoded(io.BytesIO(raw), detected(lambda: io.BytesIO(raw))))


def _xml(raw: bytes) -> "_Element":
    from lxml import etree

    try:
        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise ValueError("not XML")
    return root
