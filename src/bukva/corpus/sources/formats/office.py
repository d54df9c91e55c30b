"""Read documents of word processors: .docx (Word) and .odt (OpenDocument, LibreOffice). Each paragraph becomes a line.

Tracked insertions are read. Tracked deletions, notes, comments, headers and footers are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bukva.corpus.sources.formats.base import Text, TextFile, metadata_value
from bukva.corpus.sources.formats.lines import LineCollector
from bukva.corpus.sources.formats.xml import inner_text, open_xml, parse_small_xml, xml_text
from bukva.corpus.sources.formats.zipped import opened_book, read_part

DOCX_BODY, ODT_BODY = re.compile(r"word/document\d*\.xml"), re.compile(r"content\.xml")
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
        **dict.fromkeys(
            ["automatic-styles", "font-face-decls", "scripts", "forms", "change-info", "title", "desc"], ""
        ),
        "note": "notes",
        "deletion": "deletions",
        "annotation": "comments",
        "ruby-text": "ruby readings",
    }

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        super().start(tag, attributes)
        if not self.is_hidden and self.parents[-1] == "s":
            count = next((value for name, value in attributes.items() if name.endswith("}c")), "1")
            self._write(" " * min(int(count), MAX_SPACES) if count.isdecimal() else " ")


def read_docx(file: TextFile) -> Iterator[Text]:
    """Yield the text of a .docx, with its title and author."""
    yield _document(file, "a .docx", "docProps/core.xml", DOCX_BODY, "document", DocxCollector())


def read_odt(file: TextFile) -> Iterator[Text]:
    """Yield the text of an .odt, with its title and author."""
    yield _document(file, "an .odt", "meta.xml", ODT_BODY, "document-content", OdtCollector())


def _document(
    file: TextFile, kind: str, about: str, body: re.Pattern[str], root: str, collector: LineCollector
) -> Text:
    """Return the text of a document, a zip of XML files, with its title and author."""
    title, author = "", ""
    with opened_book(file, kind) as book:
        if about in book.namelist():
            properties = parse_small_xml(read_part(book, about))
            title = inner_text(properties.find(".//{*}title"))
            creator = properties.find(".//{*}creator")
            author = inner_text(properties.find(".//{*}initial-creator")) or inner_text(creator)
    _, characters = open_xml(file, _body(file, kind, body), "body", [root])
    return Text(xml_text(file, characters, collector), title=metadata_value(title), author=metadata_value(author))


def _body(file: TextFile, kind: str, body: re.Pattern[str]) -> Iterator[str]:
    """Yield the XML file that contains the text of a document, in pieces."""
    with opened_book(file, kind) as book:
        names = [name for name in book.namelist() if body.fullmatch(name)]
        if not names:
            raise ValueError(f"it has no part {body.pattern}")
        yield from replace(file, encoding="auto").pieces(lambda: book.open(names[0]))
