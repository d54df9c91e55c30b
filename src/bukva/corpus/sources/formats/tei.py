"""Read TEI, the XML format of scholarly editions and of drama corpora.

Each paragraph, verse, speaker and heading becomes a line. The end of a printed line or page does not end a line. An
element `choice` contains an original reading and an edited reading. The edited reading (`reg`, `corr` or `expan`) is
kept. Original readings, notes, variants and deleted passages are left out.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bukva.corpus.sources.formats.base import Text, TextFile, metadata_value, year_of
from bukva.corpus.sources.formats.lines import LineCollector
from bukva.corpus.sources.formats.xml import inner_text, local_name, open_xml, xml_text

if TYPE_CHECKING:
    from lxml.etree import _Element

ROOTS = ("TEI", "TEI.2", "teiCorpus")
# a stage direction inside one of these elements does not begin a line
WITHIN = frozenset(["p", "l", "ab", "s", "seg", "speaker", "head"])
NOT_IN_NAMES = ("idno", "note", "date")  # elements whose text does not belong to a title or author name


class TeiCollector(LineCollector):
    """Collects the text of a TEI document."""

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
        return tag in self.blocks and not (tag == "stage" and self.parents[-1:] and self.parents[-1] in WITHIN)

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
    """Yield the text of a TEI document, with its title, authors and the year of its earliest source.

    Raises:
        BadTextError: the file is not well-formed XML, or not TEI.
    """
    root, characters = open_xml(file, file.pieces(), "text", ROOTS)
    about = root.find(".//{*}titleStmt")
    authors = [] if about is None else [_author(author) for author in about.iterfind("{*}author")]
    yield Text(
        xml_text(file, characters, TeiCollector()),
        title=metadata_value("" if about is None else inner_text(about.find("{*}title"), NOT_IN_NAMES)),
        author=metadata_value(", ".join(filter(None, authors))),
        year=_year(root),
    )


def _author(author: "_Element") -> str:
    name = author.find("{*}persName")
    return inner_text(author if name is None else name, NOT_IN_NAMES)


def _year(root: "_Element") -> str:
    """Return the earliest year of the sources of the text, or "" if no source has a year."""
    paths = ".//{*}sourceDesc//{*}date", ".//{*}profileDesc/{*}creation//{*}date", "{*}standOff//{*}event"
    dates = [date for path in paths for date in root.iterfind(path)]
    keys = "when", "notBefore", "from", "notAfter", "to"
    return min(filter(None, (year_of(*map(date.get, keys), date.text) for date in dates)), default="")
