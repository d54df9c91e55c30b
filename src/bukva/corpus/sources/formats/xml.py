"""Read the header and the text of an XML document in one pass.

The documents are already decoded by TextFile.pieces, which takes the encoding from download.encoding or detects it. The
encoding that a document declares is used only if its bytes are valid in it. Nothing is fetched from the network, and
libxml2 limits the expansion of entities that a document declares.
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

MAX_HEAD_CHARS = 1 << 20
OPTIONS = {"encoding": "utf-8", "resolve_entities": False, "no_network": True}
ENTITY = re.compile(r"&(\w+);")
MAX_ENTITY_CHARS = 33  # the longest entity of HTML, including & and ;
XML_ENTITIES = {"amp", "lt", "gt", "quot", "apos"}  # predefined in XML


def open_xml(
    file: TextFile, pieces: Iterable[str], body: str, roots: Collection[str]
) -> "tuple[_Element, Iterator[str]]":
    """Read the header of a document, up to the element with the text.

    Args:
        file: the file, for errors.
        pieces: the document, piece by piece.
        body: name of the element with the text.
        roots: allowed names of the root element.

    Returns:
        The root element with everything before the body, and the pieces of the whole document.

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
    """Yield the text of a document, and report which elements were left out.

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
    """Parse a small document, such as the metadata of a book, and return its root element.

    The document need not be well-formed: the parser recovers from errors.

    Raises:
        ValueError: the bytes are not XML at all.
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
    """Return the name of an element without its namespace."""
    return tag.rpartition("}")[2]


def inner_text(element: "_Element | None", without: Collection[str] = ()) -> str:
    """Return the text inside an element, with spaces between its parts, and remove the elements `without` from it."""
    from lxml import etree

    if element is None:
        return ""
    etree.strip_elements(element, etree.Comment, *(f"{{*}}{name}" for name in without), with_tail=False)
    return " ".join(" ".join(element.itertext()).split())


def _with_entities_replaced(pieces: Iterable[str]) -> Iterator[str]:
    """Replace the entities of HTML, such as &mdash;, by their characters.

    Books often contain such entities, but XML does not define them without the DTD of HTML.
    """
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
