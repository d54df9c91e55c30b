"""Documents of word processors: .docx (Word) and .odt (OpenDocument, LibreOffice). A paragraph is a line.

Insertions that are tracked are text, and deletions are none. Notes, comments, headers and footers are left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bukva.corpus.sources.formats.base import Text, TextFile, name_of
from bukva.corpus.sources.formats.lines import Lines
from bukva.corpus.sources.formats.xml import open_xml, small_xml, words_in, xml_text
from bukva.corpus.sources.formats.zipped import opened_book, part

DOCX_BODY, ODT_BODY = re.compile(r"word/document\d*\.xml"), re.compile(r"content\.xml")
MAX_SPACES = 1000  # that one element of .odt stands for


class DocxLines(Lines):
    """The text of a .docx, which is in elements `t` only."""

    blocks = frozenset(["p", "br", "cr"])
    preformatted = frozenset(["t"])
    inserts: Mapping[str, str] = {"tab": "\t", "noBreakHyphen": "-"}
    hidden: Mapping[str, str] = {
        **dict.fromkeys(["pPr", "rPr", "sectPr", "Fallback"], ""),  # a text box is written twice
        **dict.fromkeys(["footnoteReference", "endnoteReference"], "notes"),
        **dict.fromkeys(["del", "moveFrom"], "deletions"),
        "commentReference": "comments",
        "rt": "ruby readings",
    }

    def data(self, text: str) -> None:
        if self.parents[-1:] == ["t"]:
            super().data(text)


class OdtLines(Lines):
    """The text of the content.xml of an .odt."""

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
    """The text of a document, with its title and author."""
    yield _document(file, "a .docx", "docProps/core.xml", DOCX_BODY, "document", DocxLines())


def read_odt(file: TextFile) -> Iterator[Text]:
    """The text of a document, with its title and author."""
    yield _document(file, "an .odt", "meta.xml", ODT_BODY, "document-content", OdtLines())


def _document(file: TextFile, kind: str, about: str, body: re.Pattern[str], root: str, lines: Lines) -> Text:
    """The text of the part `body`, with the title and author in the part `about`, if there is one."""
    title, author = "", ""
    with opened_book(file, kind) as book:
        if about in book.namelist():
            properties = small_xml(part(book, about))
            title = words_in(properties.find(".//{*}title"))
            author = words_in(properties.find(".//{*}initial-creator")) or words_in(properties.find(".//{*}creator"))
    _, characters = open_xml(file, _body(file, kind, body), "body", [root])
    return Text(xml_text(file, characters, lines), title=name_of(title), author=name_of(author))


def _body(file: TextFile, kind: str, body: re.Pattern[str]) -> Iterator[str]:
    """The characters of a part; its encoding is declared, whatever download.encoding is."""
    with opened_book(file, kind) as book:
        names = [name for name in book.namelist() if body.fullmatch(name)]
        if not names:
            raise ValueError(f"it has no part {body.pattern}")
        yield from replace(file, encoding="auto").pieces(lambda: book.open(names[0]))
