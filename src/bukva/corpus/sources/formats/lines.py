"""Collect the text of an HTML or XML document, line by line, from the events of an lxml parser.

A block element begins and ends a line. Elsewhere, white space becomes one space, as in a browser. White space with a
line end between two Chinese or Japanese characters is removed. The document is never in memory as a
tree, and deeply nested elements need no recursion.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

SPACES = " \t\n\r\f"
WHITE_SPACE = re.compile(f"[{SPACES}]+")
SOFT_END = "\r"  # a line end of the source: it becomes a space, or nothing between two characters of WIDE
# Characters as wide as two letters, except Korean. A line end between two wide characters does not become a space,
# because Chinese and Japanese are written without spaces (CSS Text, section 4.1.3).
WIDE = re.compile(
    r"[\u2e80-\u312f\u3190-\u31ff\u3220-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003ffff]"
)
END_IN_WIDE = re.compile(rf"(?<={WIDE.pattern})[ \t]*[\n\r][ \t\n\r]*(?={WIDE.pattern})")
NONE: Mapping[str, str] = MappingProxyType({})


class LineCollector:
    """Parser target for lxml that collects the text of a document.

    Each format has a subclass, which lists the names of its elements without their namespaces.

    Attributes:
        blocks: elements that begin and end a line.
        spaces: elements that are separated from the text around them by at least a space.
        soft_ends: elements that mark a line end of the source, such as the end of a printed line.
        preformatted: elements that keep their white space.
        inserts: element -> characters to insert at its start, such as a tab.
        hidden: element that is left out with its content -> name under which it is counted. With the name "", it is not
            counted, as for scripts or pictures.
        left_out: name that `hides` returned -> number of elements that were left out under this name.
        parents: the open elements that are not left out, the outermost first.
    """

    blocks: Collection[str] = ()
    spaces: Collection[str] = ()
    soft_ends: Collection[str] = ()
    preformatted: Collection[str] = ()
    inserts: Mapping[str, str] = NONE
    hidden: Mapping[str, str] = NONE

    def __init__(self) -> None:
        self.left_out = Counter[str]()
        self._written: list[str] = []  # the text since the last call of take()
        self._ends_line = True  # whether the whole text so far is empty or ends with a line feed
        self._has_text = False
        self._gap = ""  # white space to write before the next text, or SOFT_END
        self._last = ""  # the last character written
        self._n_hidden = 0  # number of open elements: the outermost hidden element and those inside
        self._n_preformatted = 0
        self.parents: list[str] = []

    @property
    def is_hidden(self) -> bool:
        """Whether the parser is inside an element that is left out."""
        return self._n_hidden > 0

    def is_block(self, tag: str) -> bool:
        """Return whether the element `tag` begins and ends a line. A subclass may decide by `parents`."""
        return tag in self.blocks

    def forget_space(self) -> None:
        """Join the next text to the last word without a space, unless a new line must begin between them."""
        self._gap = self._gap.strip(f" {SOFT_END}")

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the name under which an element is left out, or None if it is kept. The name "" is not counted."""
        return self.hidden.get(tag)

    def take(self) -> str:
        """Return the text that was collected since the last call of `take`."""
        text = "".join(self._written)
        self._written.clear()
        return text

    # ---- methods that the parser calls

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        reason = None if self._n_hidden else self.hides(tag, attributes)
        if reason:
            self.left_out[reason] += 1
        if self._n_hidden or reason is not None:
            self._n_hidden += 1
            return
        self._n_preformatted += tag in self.preformatted
        self._separate(tag)
        if inserted := self.inserts.get(tag):
            self._write(inserted)
        self.parents.append(tag)

    def end(self, tag: str) -> None:
        if self._n_hidden:
            self._n_hidden -= 1
            return
        tag = self.parents.pop()
        self._n_preformatted -= tag in self.preformatted
        self._separate(tag)

    def data(self, text: str) -> None:
        if self._n_hidden:
            return
        if self._n_preformatted:
            self._write(text.removeprefix("\n") if self._gap == "\n" else text)
            return
        self._add_gap(text[: len(text) - len(text.lstrip(SPACES))])
        if words := WHITE_SPACE.sub(" ", END_IN_WIDE.sub("", text)).strip(" "):
            self._write(words)
            self._add_gap(text[len(text.rstrip(SPACES)) :])

    def _add_gap(self, space: str) -> None:
        """Remember that white space precedes the next text, unless a gap is already pending."""
        if space and not self._gap:
            self._gap = SOFT_END if "\n" in space or "\r" in space else " "

    def close(self) -> str:
        """End the last line, and return the text that was collected since the last call of `take`."""
        self._gap = "\n"
        self._write("")
        return self.take()

    def _separate(self, tag: str) -> None:
        if self.is_block(tag):
            self._gap = "\n"
        elif tag in self.soft_ends:
            self._gap = self._gap or SOFT_END
        elif tag in self.spaces and self._gap != "\n":
            self._gap = " "

    def _write(self, text: str) -> None:
        if self._gap == SOFT_END:
            self._gap = "" if WIDE.match(self._last) and WIDE.match(text) else " "
        if self._has_text and not (self._gap == "\n" and self._ends_line):
            text = self._gap + text
        if text:
            self._written.append(text)
            self._last = text[-1]
            self._has_text, self._ends_line = True, text.endswith("\n")
        self._gap = ""
