"""XML: the head of a document, and its text, in one pass over its characters.

The characters come from TextFile.pieces, which finds the encoding: a declaration counts where the bytes agree with it,
and download.encoding comes before it. Nothing is fetched, and libxml2 bounds the entities that a document declares.
"""

import html.entities
import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from bukva.corpus.sources.formats.base import NO_TEXTS, BadTextError, TextFile
from bukva.corpus.sources.formats.lines import Lines

if TYPE_CHECKING:
    from lxml.etree import XMLSyntaxError, _Element

MAX_HEAD_CHARS = 1 << 20
OPTIONS = {"encoding": "utf-8", "resolve_entities": False, "no_network": True}
ENTITY = re.compile(r"&(\w+);")
MAX_ENTITY_CHARS = 33  # of a name in HTML, with & and ;
OWN = {"amp", "lt", "gt", "quot", "apos"}  # the entities of XML itself


def open_xml(
    file: TextFile, pieces: Iterable[str], body: str, roots: Collection[str]
) -> "tuple[_Element, Iterator[str]]":
    """Read a document up to its text.

    Args:
        file: the file, for errors.
        pieces: the characters of the document.
        body: the element that has the text.
        roots: the names that the root may have.

    Returns:
        The root, with what comes before the body; and the characters of the whole document.

    Raises:
        BadTextError: the document is not well-formed, or has another root.
    """
    from lxml import etree

    characters, read = _without_names(pieces), list[str]()
    parser = etree.XMLPullParser(events=("start",), **OPTIONS)
    root: _Element | None = None

    def starts() -> "Iterator[_Element]":
        for piece in characters:
            read.append(piece)
            parser.feed(piece.encode())
            yield from (element for _, element in parser.read_events())
            if root is not None and sum(map(len, read)) > MAX_HEAD_CHARS:
                return
        parser.close()
        yield from (element for _, element in parser.read_events())

    try:
        for element in starts():
            root = element if root is None else root
            if (name := local(root.tag)) not in roots:
                raise BadTextError(file.place, *_other_root(name, roots), NO_TEXTS)
            if local(element.tag) == body:
                break
    except etree.XMLSyntaxError as error:
        raise _not_xml(file, error) from None
    return root, itertools.chain(read, characters)


def xml_text(file: TextFile, characters: Iterable[str], lines: Lines) -> Iterator[str]:
    """Yield the text of a document; report what is left out.

    Raises:
        BadTextError: the document is not well-formed.
    """
    from lxml import etree

    parser = etree.XMLParser(target=lines, **OPTIONS)
    try:
        for piece in characters:
            parser.feed(piece.encode())
            yield lines.take()
        yield parser.close()
    except etree.XMLSyntaxError as error:
        raise _not_xml(file, error) from None
    file.note_left_out(lines.left_out)


def small_xml(raw: bytes) -> "_Element":
    """Return the root of a part of a book that says something about it; mistakes in it are overlooked.

    Raises:
        ValueError: it is not XML at all.
    """
    from lxml import etree

    try:
        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise ValueError("not XML")
    return root


def local(tag: str) -> str:
    """Return the name of an element without its namespace."""
    return tag.rpartition("}")[2]


def words_in(element: "_Element | None", without: Collection[str] = ()) -> str:
    """Return the text of an element, its parts divided by spaces. The elements `without` are removed from it."""
    from lxml import etree

    if element is None:
        return ""
    etree.strip_elements(element, etree.Comment, *(f"{{*}}{name}" for name in without), with_tail=False)
    return " ".join(" ".join(element.itertext()).split())


def _without_names(pieces: Iterable[str]) -> Iterator[str]:
    """Replace the characters that HTML names, as &mdash;: books have them, and without its DTD XML does not."""
    rest = ""
    for piece in pieces:
        text = rest + piece
        cut = text.rfind("&", max(0, len(text) - MAX_ENTITY_CHARS))
        cut = len(text) if cut < 0 or ";" in text[cut:] else cut
        text, rest = text[:cut], text[cut:]
        yield ENTITY.sub(_character, text)
    yield rest


def _character(found: re.Match[str]) -> str:
    characters = None if found[1] in OWN else html.entities.html5.get(f"{found[1]};")
    return escape(characters) if characters else found[0]


def _other_root(name: str, roots: Collection[str]) -> tuple[str, str]:
    which = " or ".join(f"<{root}>" for root in roots)
    return f"its root is <{name}>, not {which}", "convert it to .txt, or name its type in download.extensions"


def _not_xml(file: TextFile, error: "XMLSyntaxError") -> BadTextError:
    why = f"is not well-formed XML ({' '.join(str(error.msg).split())[:100]})"
    return BadTextError(file.place, why, "repair it: xmllint --recover --encode utf-8 FILE > REPAIRED")
