"""Read XML documents, and the formats FictionBook 2 (.fb2) and TEI (.xml).

A document is decoded before it is parsed. The encoding that it declares is only used as a hint when its encoding is
detected. Nothing is fetched from the network, and libxml2 limits the expansion of entities that a document declares.
"""

import html.entities
import io
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, Text, TextFile, metadata_value, short, year_of
from bukva.corpus.sources.formats.lines import LineCollector

if TYPE_CHECKING:
    from lxml.etree import _Element

OPTIONS = {"encoding": "utf-8", "resolve_entities": False, "no_network": True}
ENTITY = re.compile(r"&(\w+);")
XML_ENTITIES = {"amp", "lt", "gt", "quot", "apos"}  # predefined in XML


def read_xml(
    file: TextFile, document: str, collector: LineCollector, body: str, roots: Collection[str]
) -> "tuple[_Element, str]":
    """Return the root element with everything before the element `body`, and the text that `collector` collects.

    Parts that the collector leaves out are reported.

    Raises:
        BadTextError: the document is not well-formed, or the name of its root element is not in `roots`.
    """
    from lxml import etree

    raw = ENTITY.sub(_character, document).encode()
    try:
        started = etree.iterparse(io.BytesIO(raw), events=("start",), **OPTIONS)
        _, root = next(started)
        if (name := local_name(root.tag)) not in roots:
            why = f"its root is <{name}>, not {' or '.join(f'<{root}>' for root in roots)}"
            advice = "Convert it to .txt, or add its extension to download.extensions"
            raise BadTextError(file.display_name, why, advice, NO_TEXTS)
        next((element for _, element in started if local_name(element.tag) == body), None)
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


def local_name(tag: str) -> str:
    """Return the name of an element without its namespace: "p" for "{http://www.tei-c.org/ns/1.0}p"."""
    return tag.rpartition("}")[2]


def inner_text(element: "_Element | None", without: Collection[str] = ()) -> str:
    """Return the text inside `element` as one line, or "" if `element` is None.

    Inner elements are separated by spaces. Inner elements with a name in `without` are removed from `element`.
    """
    from lxml import etree

    if element is None:
        return ""
    etree.strip_elements(element, etree.Comment, *(f"{{*}}{name}" for name in without), with_tail=False)
    return " ".join(" ".join(element.itertext()).split())


# ---- FictionBook. Notes are left out, because a note inside the text would interrupt a sentence, and a note at the end
# of the book would have no context.

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
    """Yield the text of a FictionBook, a line for each paragraph, verse and title."""
    yield fb2_text(file, file.text())


def fb2_text(file: TextFile, document: str) -> Text:
    """Return the text of a FictionBook, with its title, authors and year of writing."""
    root, text = read_xml(file, document, Fb2Collector(), "body", ["FictionBook"])
    about = root.find("{*}description/{*}title-info")
    if about is None:
        return Text(text)
    date = about.find("{*}date")
    return Text(
        text,
        title=metadata_value(inner_text(about.find("{*}book-title"))),
        author=metadata_value(", ".join(filter(None, map(_fb2_author, about.iterfind("{*}author"))))),
        year="" if date is None else year_of(inner_text(date), date.get("value")),
    )


def _fb2_author(author: "_Element") -> str:
    names = [inner_text(author.find(f"{{*}}{name}")) for name in NAMES]
    return " ".join(filter(None, names)) or inner_text(author.find("{*}nickname"))


# ---- TEI, the format of scholarly editions and drama corpora. The end of a printed line or page does not end a line.
# An element `choice` contains an original reading and an edited reading. The edited reading is kept.

# a stage direction inside one of these elements does not begin a line
WITHIN = frozenset(["p", "l", "ab", "s", "seg", "speaker", "head"])
NOT_IN_NAMES = ("idno", "note", "date")  # elements whose text does not belong to a title or author name


class TeiCollector(LineCollector):
    """Collects the text of a TEI document, without original readings, notes, variants and deleted passages."""

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
        # for each open element, the sides on which it joins the text without a space: left, right, both, or "" for none
        self._joins: list[str] = []
        self._is_joined = False  # whether the next text is joined to the last text without a space
        # whether an element `w`, a word, has just ended, so that a directly following word needs a space
        self._is_after_word = False

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:
        if tag in ("orig", "sic", "abbr") and self.parents[-1:] == ["choice"]:
            return "replaced readings"
        return super().hides(tag, attributes)

    def is_block(self, tag: str) -> bool:
        return super().is_block(tag) and not (tag == "stage" and self.parents and self.parents[-1] in WITHIN)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self.is_hidden:
            join = "both" if attributes.get("break") == "no" else attributes.get("join", "")
            self._is_joined = self._is_joined or join in ("left", "both")
            if local_name(tag) == "w" and self._is_after_word:
                self.data(" ")
            self._is_after_word = False
        super().start(tag, attributes)
        if not self.is_hidden:
            self._joins.append(join)

    def end(self, tag: str) -> None:
        if not self.is_hidden:
            self._is_joined = self._is_joined or self._joins.pop() in ("right", "both")
            self._is_after_word = local_name(tag) == "w"
        super().end(tag)

    def data(self, text: str) -> None:
        if self.is_hidden:
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
    root, text = read_xml(file, file.text(), TeiCollector(), "text", ["TEI", "TEI.2", "teiCorpus"])
    about = root.find(".//{*}titleStmt")
    authors = [] if about is None else [_tei_author(author) for author in about.iterfind("{*}author")]
    yield Text(
        text,
        title=metadata_value("" if about is None else inner_text(about.find("{*}title"), NOT_IN_NAMES)),
        author=metadata_value(", ".join(filter(None, authors))),
        year=_first_year(root),
    )


def _tei_author(author: "_Element") -> str:
    name = author.find("{*}persName")
    return inner_text(author if name is None else name, NOT_IN_NAMES)


def _first_year(root: "_Element") -> str:
    """Return the earliest year of the sources of the text, or "" if no source has a year."""
    paths = ".//{*}sourceDesc//{*}date", ".//{*}profileDesc/{*}creation//{*}date", "{*}standOff//{*}event"
    dates = [date for path in paths for date in root.iterfind(path)]
    keys = "when", "notBefore", "from", "notAfter", "to"
    return min(filter(None, (year_of(*map(date.get, keys), date.text) for date in dates)), default="")
