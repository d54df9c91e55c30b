"""Read the header and the text of an XML document in one pass.

`TextFile.pieces` decodes a document before it is parsed. The encoding that a document declares is only used as a hint
when its encoding is detected. Nothing is fetched from the network, and libxml2 limits the expansion of entities that a
document declares.
"""

import html.entities
import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, TextFile
from bukva.corpus.sources.formats.lines import LineCollector

if TYPE_CHECKING:
    from lxml.etree import XMLSyntaxError, _Element

MAX_HEAD_CHARS = 1 << 20  # the element with the text is searched in this many characters
OPTIONS = {"encoding": "utf-8", "resolve_entities": False, "no_network": True}
ENTITY = re.compile(r"&(\w+);")
MAX_ENTITY_CHARS = 33  # the longest entity of HTML, including & and ;
XML_ENTITIES = {"amp", "lt", "gt", "quot", "apos"}  # predefined in XML


def open_xml(
    file: TextFile, pieces: Iterable[str], body: str, roots: Collection[str]
) -> "tuple[_Element, Iterator[str]]":
    """Read the header of an XML document, up to the element with the text.

    Args:
        file: the file that contains the document, for errors.
        pieces: the whole document in pieces.
        body: name of the element with the text.
        roots: allowed names of the root element.

    Returns:
        The root element, and the whole document in pieces. The root element contains everything before `body`, or at
        least the first MAX_HEAD_CHARS characters of the document.

    Raises:
        BadTextError: the document is not well-formed, or has another root element.
    """
    from lxml import etree

    characters, read = _with_entities_replaced(pieces), list[str]()
    parser = etree.XMLPullParser(events=("start",), **OPTIONS)
    root: _Element | None = None

    def started_elements() -> "Iterator[_Element]":
        for piece in characters:
            read.append(piece)
            parser.feed(piece.encode())
            yield from (element for _, element in parser.read_events())
            if root is not None and sum(map(len, read)) > MAX_HEAD_CHARS:
                return
        parser.close()
        yield from (element for _, element in parser.read_events())

    try:
        for element in started_elements():
            root = element if root is None else root
            if (name := local_name(root.tag)) not in roots:
                raise BadTextError(file.display_name, *_other_root(name, roots), NO_TEXTS)
            if local_name(element.tag) == body:
                break
    except etree.XMLSyntaxError as error:
        raise _not_xml(file, error) from None
    return root, itertools.chain(read, characters)


def xml_text(file: TextFile, characters: Iterable[str], collector: LineCollector) -> Iterator[str]:
    """Yield the text that `collector` collects from an XML document. Call `file.note` if elements were left out.

    Args:
        file: the file that contains the document, for errors and for `note`.
        characters: the whole document in pieces.
        collector: a new collector for the format of the document.

    Raises:
        BadTextError: the document is not well-formed.
    """
    from lxml import etree

    parser = etree.XMLParser(target=collector, **OPTIONS)
    try:
        for piece in characters:
            parser.feed(piece.encode())
            yield collector.take()
        yield parser.close()
    except etree.XMLSyntaxError as error:
        raise _not_xml(file, error) from None
    file.note_left_out(collector.left_out)


def parse_small_xml(raw: bytes) -> "_Element":
    """Parse a small XML document, such as the metadata of a book, and return its root element.

    The document may be malformed, because the parser recovers from errors.

    Raises:
        ValueError: the parser finds no XML in `raw`.
    """
    from lxml import etree

    try:
        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise ValueError("not XML")
    return root


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


def _with_entities_replaced(pieces: Iterable[str]) -> Iterator[str]:
    """Yield a document in pieces, with HTML entities such as &mdash; replaced by the characters that they name."""
    rest = ""
    for piece in pieces:
        text = rest + piece
        cut = text.rfind("&", max(0, len(text) - MAX_ENTITY_CHARS))
        cut = len(text) if cut < 0 or ";" in text[cut:] else cut
        text, rest = text[:cut], text[cut:]
        yield ENTITY.sub(_character, text)
    yield rest


def _character(entity: re.Match[str]) -> str:
    characters = None if entity[1] in XML_ENTITIES else html.entities.html5.get(f"{entity[1]};")
    return escape(characters) if characters else entity[0]


def _other_root(name: str, roots: Collection[str]) -> tuple[str, str]:
    which = " or ".join(f"<{root}>" for root in roots)
    return f"its root is <{name}>, not {which}", "Convert it to .txt, or add its extension to download.extensions"


def _not_xml(file: TextFile, error: "XMLSyntaxError") -> BadTextError:
    why = f"is not well-formed XML ({' '.join(str(error.msg).split())[:100]})"
    return BadTextError(file.display_name, why, "Repair it with `xmllint --recover --encode utf-8 FILE > REPAIRED`")
