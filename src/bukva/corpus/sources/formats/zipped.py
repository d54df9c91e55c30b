"""Read books and documents that are zip files: .epub, .docx (Word), .odt (LibreOffice) and .fb2.zip.

Nothing is unpacked to disk, and the limits of archives.py apply.
"""

import contextlib
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zipfile import ZipFile

from bukva.corpus.sources.archives import DAMAGED, opened_zip
from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile, metadata_value, short, year_of
from bukva.corpus.sources.formats.encodings import BadEncodingError, decode, detect_encoding
from bukva.corpus.sources.formats.lines import LineCollector
from bukva.corpus.sources.formats.markup import html_text
from bukva.corpus.sources.formats.xml import fb2_text, inner_text, read_xml

if TYPE_CHECKING:
    from lxml.etree import _Element

MAX_PART_BYTES = 256 << 20  # a zip can be a bomb; an .fb2 contains its pictures


@contextlib.contextmanager
def _opened(file: TextFile, kind: str) -> Iterator[ZipFile]:
    """Open a book. A fault of the zip or a ValueError in the `with` block becomes an error that names the book."""
    # `kind` is the expected type with an article, such as `an epub`.
    try:
        with opened_zip(file.path) as book:
            yield book
    except OSError as error:
        raise file.unreadable(error) from None
    except DAMAGED as error:
        why = f"is damaged, or is not {kind} ({short(error)})"
        raise BadTextError(file.display_name, why, "Get the file again") from None


def _part(book: ZipFile, name: str) -> bytes:
    with book.open(name) as content:
        raw = content.read(MAX_PART_BYTES + 1)
    if len(raw) > MAX_PART_BYTES:
        raise ValueError(f"{name} has more than {MAX_PART_BYTES} bytes")
    return raw


def _small_xml(raw: bytes) -> "_Element":
    """Return the root element of XML that describes a book. The XML may be malformed."""
    from lxml import etree

    try:
        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise ValueError("not XML")
    return root


def read_fb2_zip(file: TextFile) -> Iterator[Text]:
    """Yield the text of a zip that contains a single .fb2 file."""
    with _opened(file, "an .fb2.zip") as book:
        names = [name for name in book.namelist() if name.lower().endswith(".fb2")]
        if len(names) != 1:
            raise ValueError(f"it contains {len(names)} .fb2 files, not one")
        raw = _part(book, names[0])
    yield fb2_text(file, file.text(raw))


# ---- EPUB, a zip of XHTML chapters. A list in the book, the spine, gives their order.

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
CHAPTER_TYPES = {"application/xhtml+xml", "text/html"}
# A date in EPUB 2 has an attribute `event`. Dates with one of these events give the year of the work. A date without an
# event says when the file was made.
WRITTEN = ("creation", "original-publication")
EVENT, ROLE = ("{http://www.idpf.org/2007/opf}" + name for name in ("event", "role"))


def read_epub(file: TextFile) -> Iterator[Text]:
    """Yield the text of a book, with its title, authors and year. Chapters that are missing are reported."""
    left_out, missing, chapters = Counter[str](), list[str](), list[str]()
    with _opened(file, "an epub") as book:
        rootfile = _small_xml(_part(book, CONTAINER)).find(".//{*}rootfile")
        if rootfile is None:
            raise ValueError("no rootfile in container.xml")
        package_name = rootfile.get("full-path", "")
        package = _small_xml(_part(book, package_name))
        present = set(book.namelist())
        for name in _spine(package, posixpath.dirname(package_name)):
            if name in present:
                chapters.append(html_text(_chapter(book, name, file), left_out))
            else:
                missing.append(name)
    file.note_left_out(left_out)
    if missing:
        file.note("epubs_without_all_chapters", ", ".join(missing))
    creators = package.iterfind("{*}metadata/{*}creator")
    authors = [creator.text or "" for creator in creators if creator.get(ROLE, "aut") == "aut"]
    dates = [date.text for date in package.iterfind("{*}metadata/{*}date") if date.get(EVENT) in WRITTEN]
    yield Text(
        "".join(chapters),
        title=metadata_value(package.findtext("{*}metadata/{*}title")),
        author=metadata_value(", ".join(authors)),
        year=year_of(*dates),
    )


def _spine(package: "_Element", folder: str) -> Iterator[str]:
    """Yield the paths of the chapters in reading order, without the table of contents."""
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None:
            yield f"idref {reference.get('idref')}"
        elif item.get("media-type") in CHAPTER_TYPES and "nav" not in item.get("properties", "").split():
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))


def _chapter(book: ZipFile, name: str, file: TextFile) -> str:
    raw = _part(book, name)
    try:
        return decode(raw, detect_encoding(raw))
    except BadEncodingError as error:
        encrypted = unquote(_part(book, ENCRYPTION).decode(errors="replace")) if ENCRYPTION in book.namelist() else ""
        if name in encrypted:
            why, advice = f"{name} is encrypted", "Get a file without copy protection"
            raise BadTextError(file.display_name, why, advice) from None
        raise ValueError(f"{name}: {error}") from None


# ---- documents of word processors. Tracked insertions are read. Tracked deletions, notes, comments, headers and
# footers are left out.

MAX_SPACES = 1000  # limit for an element of an .odt that represents several spaces


class DocxCollector(LineCollector):
    """Collects the text of a .docx, which is in the elements `t`."""

    blocks = frozenset(["p", "br", "cr"])
    preformatted = frozenset(["t"])
    inserts: Mapping[str, str] = {"tab": "\t", "noBreakHyphen": "-"}
    hidden: Mapping[str, str] = {
        **dict.fromkeys(["pPr", "rPr", "sectPr", "Fallback"], ""),  # `Fallback` repeats the content of a text box
        **dict.fromkeys(["footnoteReference", "endnoteReference"], "notes"),
        **dict.fromkeys(["del", "moveFrom"], "deletions"),
        "commentReference": "comments",
        "rt": "ruby readings",
    }

    def data(self, text: str) -> None:
        if self.parents[-1:] == ["t"]:
            super().data(text)


class OdtCollector(LineCollector):
    """Collects the text of content.xml, the part of an .odt that contains the text."""

    blocks = frozenset(["p", "h", "line-break"])
    inserts: Mapping[str, str] = {"tab": "\t"}
    hidden: Mapping[str, str] = {
        **dict.fromkeys(["automatic-styles", "font-face-decls", "scripts", "forms", "change-info"], ""),
        **dict.fromkeys(["title", "desc"], ""),
        "note": "notes",
        "deletion": "deletions",
        "annotation": "comments",
        "ruby-text": "ruby readings",
    }

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        super().start(tag, attributes)
        if not self.is_hidden and self.parents[-1] == "s":
            count = next((value for name, value in attributes.items() if name.endswith("}c")), "1")
            self.write(" " * min(int(count), MAX_SPACES) if count.isdecimal() else " ")


def read_docx(file: TextFile) -> Iterator[Text]:
    """Yield the text of a .docx, a line for each paragraph, with its title and author."""
    yield _document(file, "a .docx", "docProps/core.xml", r"word/document\d*\.xml", "document", DocxCollector())


def read_odt(file: TextFile) -> Iterator[Text]:
    """Yield the text of an .odt, a line for each paragraph, with its title and author."""
    yield _document(file, "an .odt", "meta.xml", r"content\.xml", "document-content", OdtCollector())


def _document(file: TextFile, kind: str, about: str, body: str, root: str, collector: LineCollector) -> Text:
    """Read a document whose title is in the part `about`, and whose text is in the part with a name matching `body`."""
    title, author = "", ""
    with _opened(file, kind) as book:
        if about in book.namelist():
            properties = _small_xml(_part(book, about))
            title = inner_text(properties.find(".//{*}title"))
            creator = properties.find(".//{*}creator")
            author = inner_text(properties.find(".//{*}initial-creator")) or inner_text(creator)
        name = next((name for name in book.namelist() if re.fullmatch(body, name)), "")
        if not name:
            raise ValueError(f"it has no part {body}")
        raw = _part(book, name)
    document = replace(file, encoding="auto").text(raw)
    _, text = read_xml(file, document, collector, "body", [root])
    return Text(text, title=metadata_value(title), author=metadata_value(author))
