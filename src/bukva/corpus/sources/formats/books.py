"""Read XML documents: FictionBook 2 (.fb2, .fb2.zip), TEI (.xml), EPUB, Word (.docx) and LibreOffice (.odt).

A document is decoded before it is parsed. The encoding that it declares is only a hint. Nothing is fetched from the
network, libxml2 limits the expansion of entities, and a zip is read within the limits of archives.py.
"""

import contextlib
import html.entities
import io
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.sax.saxutils import escape
from zipfile import ZipFile

from bukva.corpus.sources.archives import DAMAGED, opened_zip
from bukva.corpus.sources.encodings import BadEncodingError, decode, detect_encoding
from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Text, TextFile, metadata_value, short, year_of
from bukva.corpus.sources.formats.pages import LineCollector, html_text

if TYPE_CHECKING:
    from lxml.etree import _Element

OPTIONS = {"encoding": "utf-8", "resolve_entities": False, "no_network": True}
ENTITY = re.compile(r"&(\w+);")
XML_ENTITIES = {"amp", "lt", "gt", "quot", "apos"}  # predefined in XML
MAX_PART_BYTES = 256 << 20  # a zip can be a bomb; an .fb2 contains its pictures


def _read_xml(
    file: TextFile, document: str, collector: LineCollector, body: str, roots: Collection[str]
) -> "tuple[_Element, str]":
    """Return the root with everything before the element `body`, and the text that `collector` collects."""
    from lxml import etree

    raw = ENTITY.sub(_character, document).encode()
    try:
        started = etree.iterparse(io.BytesIO(raw), events=("start",), **OPTIONS)
        _, root = next(started)
        if (name := _local_name(root.tag)) not in roots:
            why = f"its root is <{name}>, not {' or '.join(f'<{root}>' for root in roots)}"
            advice = "Convert it to .txt, or add its extension to download.extensions"
            raise BadTextError(file.display_name, why, advice, NO_TEXTS)
        next((element for _, element in started if _local_name(element.tag) == body), None)
        text = str(etree.fromstring(raw, etree.XMLParser(target=collector, **OPTIONS)))
    except etree.XMLSyntaxError as error:
        advice = "Repair it with `xmllint --recover --encode utf-8 FILE > REPAIRED`"
        raise BadTextError(file.display_name, f"is not well-formed XML ({short(error.msg)})", advice) from None
    file.note_left_out(collector.left_out)
    return root, text


def _character(entity: re.Match[str]) -> str:
    """Return the character that an HTML entity such as &mdash; names. XML without a DTD knows no such entities."""
    characters = None if entity[1] in XML_ENTITIES else html.entities.html5.get(f"{entity[1]};")
    return escape(characters) if characters else entity[0]


def _local_name(tag: str) -> str:
    return tag.rpartition("}")[2]


def _inner_text(element: "_Element | None", without: Collection[str] = ()) -> str:
    """Return the text inside an element as one line, and remove inner elements with a name in `without` from it."""
    from lxml import etree

    if element is None:
        return ""
    etree.strip_elements(element, etree.Comment, *(f"{{*}}{name}" for name in without), with_tail=False)
    return " ".join(" ".join(element.itertext()).split())


def _book(text: str, title: str | None, authors: Iterable[str], year: str = "") -> Text:
    return Text(text, title=metadata_value(title), author=metadata_value(", ".join(filter(None, authors))), year=year)


@contextlib.contextmanager
def _opened(file: TextFile, kind: str) -> Iterator[ZipFile]:
    """Open a zip of a type such as `an epub`. A fault of the zip or a ValueError becomes an error that names it."""
    try:
        with _zip_of(file.path) if file.path.is_dir() else opened_zip(file.path) as book:
            yield book
    except OSError as error:
        raise file.unreadable(error) from None
    except DAMAGED as error:
        why = f"is damaged, or is not {kind} ({short(error)})"
        raise BadTextError(file.display_name, why, "Get the file again") from None


def _zip_of(folder: Path) -> ZipFile:
    """Return a zip in memory with the files below a folder."""
    zipped = ZipFile(io.BytesIO(), "w", strict_timestamps=False)
    for path in filter(Path.is_file, folder.rglob("*")):
        zipped.write(path, path.relative_to(folder))
    return zipped


def _part(book: ZipFile, name: str) -> bytes:
    with book.open(name) as content:
        raw = content.read(MAX_PART_BYTES + 1)
    if len(raw) > MAX_PART_BYTES:
        raise ValueError(f"{name} has more than {MAX_PART_BYTES} bytes")
    return raw


def _small_xml(raw: bytes) -> "_Element":
    """Return the root element of XML that describes a book. The XML may be malformed."""
    from lxml import etree

    root = None
    with contextlib.suppress(etree.XMLSyntaxError):
        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    if root is None:
        raise ValueError("not XML")
    return root


# ---- FictionBook, without notes: inside the text they would interrupt a sentence, and at the end have no context

NOTES = re.compile("note|comment|примеч|коммент", re.IGNORECASE)  # in the attribute `name` of a body with notes
NOTE = re.compile(r"#(?:n|note|fn|ftn|_ftn|footnote|c|comment)[_-]?\d+")  # target of a link to a note
HREF = "{http://www.w3.org/1999/xlink}href"
NAMES = ("first-name", "middle-name", "last-name", "nickname")  # of an author; a nickname replaces missing names


class Fb2Collector(LineCollector):
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
    """Yield the text of a FictionBook or of a zip with one, with its title, authors and year of writing."""
    raw = None
    if file.path.suffix.lower() == ".zip":
        with _opened(file, "an .fb2.zip") as book:
            names = [name for name in book.namelist() if name.lower().endswith(".fb2")]
            if len(names) != 1:
                raise ValueError(f"it contains {len(names)} .fb2 files, not one")
            raw = _part(book, names[0])
    root, text = _read_xml(file, file.text(raw), Fb2Collector(), "body", ["FictionBook"])
    title, date = (root.find(f"{{*}}description/{{*}}title-info/{{*}}{name}") for name in ("book-title", "date"))
    authors = []
    for author in root.iterfind("{*}description/{*}title-info/{*}author"):
        *names, nickname = (_inner_text(author.find(f"{{*}}{name}")) for name in NAMES)
        authors.append(" ".join(filter(None, names)) or nickname)
    year = "" if date is None else year_of(_inner_text(date), date.get("value"))
    yield _book(text, _inner_text(title), authors, year)


# ---- TEI, the format of scholarly editions and drama corpora. Of an original and an edited reading (in an element
# `choice`), the edited one is kept. The end of a printed line or page does not end a line.

WITHIN = frozenset(["p", "l", "ab", "s", "seg", "speaker", "head"])  # a stage direction inside these begins no line
NOT_IN_NAMES = ("idno", "note", "date")  # elements whose text does not belong to a title or author name
DATES = (".//{*}sourceDesc//{*}date", ".//{*}profileDesc/{*}creation//{*}date", "{*}standOff//{*}event")
YEAR_KEYS = ("when", "notBefore", "from", "notAfter", "to")


class TeiCollector(LineCollector):
    blocks = frozenset([
        *["ab", "argument", "back", "body", "byline", "castGroup", "castItem", "castList", "closer", "dateline", "div"],
        *["div0", "div1", "div2", "div3", "div4", "div5", "div6", "div7", "docAuthor", "docDate", "docEdition"],
        *["docImprint", "docTitle", "epigraph", "epilogue", "floatingText", "front", "group", "head", "item", "l"],
        *["lg", "list", "opener", "p", "performance", "postscript", "prologue", "row", "salute", "set", "signed", "sp"],
        *["speaker", "stage", "table", "text", "titlePage", "titlePart", "trailer", "u"],
    ])  # fmt: skip
    spaces = frozenset(["cell", "label"])
    soft_ends = frozenset(["lb"])
    hidden: Mapping[str, str] = {
        **dict.fromkeys(["teiHeader", "standOff", "facsimile", "sourceDoc", "figDesc", "fw"], ""),
        "note": "notes",
        "rdg": "variants",
        "del": "deletions",
    }

    def __init__(self) -> None:
        super().__init__()
        self._joins: list[str] = []  # the sides on which each open element joins the text: left, right, both, or ""
        self._is_joined = False  # whether the next text is joined to the last text without a space
        self._is_after_word = False  # whether a word (element `w`) has just ended; a space separates it from the next

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:
        if tag in ("orig", "sic", "abbr") and self.parents[-1:] == ["choice"]:
            return "replaced readings"
        return super().hides(tag, attributes)

    def is_block(self, tag: str) -> bool:
        return super().is_block(tag) and not (tag == "stage" and self.parents and self.parents[-1] in WITHIN)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        join = "both" if attributes.get("break") == "no" else attributes.get("join", "")
        if not self.n_hidden:
            self._is_joined = self._is_joined or join in ("left", "both")
            if _local_name(tag) == "w" and self._is_after_word:
                self.data(" ")
            self._is_after_word = False
        super().start(tag, attributes)
        if not self.n_hidden:
            self._joins.append(join)

    def end(self, tag: str) -> None:
        if not self.n_hidden:
            self._is_joined = self._is_joined or self._joins.pop() in ("right", "both")
            self._is_after_word = _local_name(tag) == "w"
        super().end(tag)

    def data(self, text: str) -> None:
        if self.n_hidden:
            return
        self._is_after_word = False
        if self._is_joined:
            text = text.lstrip(" \t\n\r\f")
            if not text:
                return
            self._is_joined = False
            self.forget_space()
        super().data(text)


def read_tei(file: TextFile) -> Iterator[Text]:
    """Yield the text of a TEI document, with its title, authors and the year of its earliest source."""
    root, text = _read_xml(file, file.text(), TeiCollector(), "text", ["TEI", "TEI.2", "teiCorpus"])
    about = root.find(".//{*}titleStmt")
    title, authors = (None, []) if about is None else (about.find("{*}title"), [*about.iterfind("{*}author")])
    names = (_inner_text(next(author.iterfind("{*}persName"), author), NOT_IN_NAMES) for author in authors)
    dates = (date for path in DATES for date in root.iterfind(path))
    years = (year_of(*map(date.get, YEAR_KEYS), date.text) for date in dates)
    yield _book(text, _inner_text(title, NOT_IN_NAMES), names, min(filter(None, years), default=""))


# ---- EPUB, a zip or (in Apple Books) a folder of XHTML chapters. A list in the book, the spine, gives their order.

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
CHAPTER_TYPES = {"application/xhtml+xml", "text/html"}
WRITTEN = ("creation", "original-publication")  # events of dates of the work; without an event, a date is of the file
EVENT, ROLE = ("{http://www.idpf.org/2007/opf}" + name for name in ("event", "role"))


def is_epub(folder: Path) -> bool:
    return (folder / CONTAINER).is_file()


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
    yield _book("".join(chapters), package.findtext("{*}metadata/{*}title"), authors, year_of(*dates))


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


# ---- documents of word processors, with tracked insertions, without tracked deletions, notes, comments and headers

MAX_SPACES = 1000  # limit for an element of an .odt that represents several spaces


class DocxCollector(LineCollector):
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
        if self.parents[-1:] == ["t"]:  # other text is of fields, or layout of the XML
            super().data(text)


class OdtCollector(LineCollector):
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
        if not self.n_hidden and self.parents[-1] == "s":
            n_spaces = next((value for name, value in attributes.items() if name.endswith("}c")), "1")
            self.write(" " * min(int(n_spaces), MAX_SPACES) if n_spaces.isdecimal() else " ")


def read_docx(file: TextFile) -> Iterator[Text]:
    yield _document(file, "a .docx", "docProps/core.xml", r"word/document\d*\.xml", "document", DocxCollector())


def read_odt(file: TextFile) -> Iterator[Text]:
    yield _document(file, "an .odt", "meta.xml", r"content\.xml", "document-content", OdtCollector())


def _document(file: TextFile, kind: str, about: str, body: str, root: str, collector: LineCollector) -> Text:
    """Read a document whose title is in the part `about`, and whose text is in the part with a name matching `body`."""
    title, author = "", ""
    with _opened(file, kind) as book:
        if about in book.namelist():
            properties = _small_xml(_part(book, about))
            title = _inner_text(properties.find(".//{*}title"))
            creator = properties.find(".//{*}creator")
            author = _inner_text(properties.find(".//{*}initial-creator")) or _inner_text(creator)
        name = next((name for name in book.namelist() if re.fullmatch(body, name)), "")
        if not name:
            raise ValueError(f"it has no part {body}")
        raw = _part(book, name)
    document = replace(file, encoding="auto").text(raw)
    _, text = _read_xml(file, document, collector, "body", [root])
    return _book(text, title, [author])
