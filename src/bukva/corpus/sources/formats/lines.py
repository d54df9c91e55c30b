"""The text between the tags of a document, collected from the events of a parser of lxml.

A block ends its line; elsewhere white space is one space, as in a browser. No tree of the document is in memory, and
no call is nested, however deep its elements are.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

WHITE_SPACE = re.compile(r"[ \t\n\r\f]+")
NONE: Mapping[str, str] = MappingProxyType({})


class Lines:
    """Collects the text of a document. A format is a subclass that names its elements, without their namespaces.

    Attributes:
        blocks: elements that begin and end a line.
        spaces: elements before and after which there is at least a space.
        preformatted: elements that keep their white space.
        inserts: the characters that an empty element stands for.
        hidden: elements that are left out with all that they contain, and the name under which they are counted. An
            element with an empty name is not counted, such as a script or a picture.
        left_out: the number of elements left out, by that name.
    """

    blocks: Collection[str] = ()
    spaces: Collection[str] = ()
    preformatted: Collection[str] = ()
    inserts: Mapping[str, str] = NONE
    hidden: Mapping[str, str] = NONE

    def __init__(self) -> None:
        self.left_out = Counter[str]()
        self._written: list[str] = []  # since the last call of take
        self._ends_line = True  # whether the text so far, also what was taken, is empty or ends with a line feed
        self._has_text = False
        self._gap = ""  # white space before the next text
        self._n_hidden = 0  # open elements from the outermost hidden one
        self._n_preformatted = 0
        self.parents: list[str] = []  # the open elements that are kept

    @property
    def is_hidden(self) -> bool:
        """Whether the parser is inside of an element that is left out."""
        return self._n_hidden > 0

    def is_block(self, tag: str) -> bool:
        """Return whether an element begins and ends a line."""
        return tag in self.blocks

    def forget_space(self) -> None:
        """Let the next text follow without a space; a line that has ended stays so."""
        self._gap = self._gap.strip(" ")

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the name under which this element is left out; None if it is kept."""
        return self.hidden.get(tag)

    def take(self) -> str:
        """Return the text since the last call."""
        text = "".join(self._written)
        self._written.clear()
        return text

    # ---- what a parser calls

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
        text = WHITE_SPACE.sub(" ", text)
        if text.startswith(" "):
            self._gap = self._gap or " "
        if words := text.strip(" "):
            self._write(words)
            self._gap = " " if text.endswith(" ") else ""

    def close(self) -> str:
        """End the last line; return the text since the last call of take."""
        self._gap = "\n"
        self._write("")
        return self.take()

    def _separate(self, tag: str) -> None:
        if self.is_block(tag):
            self._gap = "\n"
        elif tag in self.spaces:
            self._gap = self._gap or " "

    def _write(self, text: str) -> None:
        if self._has_text and not (self._gap == "\n" and self._ends_line):
            text = self._gap + text
        if text:
            self._written.append(text)
            self._has_text, self._ends_line = True, text.endswith("\n")
        self._gap = ""
