"""Collect the text of an HTML or XML document, line by line, from the events of an lxml parser.

A block element begins and ends a line. Elsewhere, each run of white space becomes one space, as in a browser. Between
two Chinese or Japanese characters, white space that contains a line end is removed. The document is never in memory as
a tree, and deeply nested elements need no recursion.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

SPACES = " \t\n\r\f"
WHITE_SPACE = re.compile(f"[{SPACES}]+")
SOFT_END = "\r"  # stands for a line end of the source, which becomes a space, or nothing between two WIDE characters
# Characters as wide as two letters, except Korean. A line end between two wide characters does not become a space,
# because Chinese and Japanese are written without spaces (CSS Text, section 4.1.3).
WIDE = re.compile(
    r"[\u2e80-\u312f\u3190-\u31ff\u3220-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\U00020000-\U0003ffff]"
)
END_IN_WIDE = re.compile(rf"(?<={WIDE.pattern})[ \t]*[\n\r][ \t\n\r]*(?={WIDE.pattern})")
NONE: Mapping[str, str] = MappingProxyType({})


class LineCollector:
    """Parser target for lxml that collects the text of a document.

    Each format has a subclass with tables of its elements, named without their namespaces:

    blocks: elements that begin and end a line.
    spaces: elements that are separated from the text around them by at least a space.
    soft_ends: elements that mark a line end of the source, such as the end of a printed line.
    preformatted: elements that keep their white space.
    inserts: characters to insert at the start of an element, such as a tab, by element.
    hidden: elements that are left out with their content, each with the name under which it is counted in `left_out`,
        such as "notes". Elements with the name "" are not counted.
    """

    blocks: Collection[str] = ()
    spaces: Collection[str] = ()
    soft_ends: Collection[str] = ()
    preformatted: Collection[str] = ()
    inserts: Mapping[str, str] = NONE
    hidden: Mapping[str, str] = NONE

    def __init__(self) -> None:
        self.left_out = Counter[str]()
        self.parents: list[str] = []  # the open elements that are not left out
        self.is_hidden = False
        self._n_hidden = 0  # number of open elements that are left out: the outermost one and those inside
        self._n_preformatted = 0
        self._written: list[str] = []
        self._gap = ""  # white space to write before the next text, or SOFT_END
        self._last = "\n"  # the last character written; nothing precedes the first line

    def is_block(self, tag: str) -> bool:
        return tag in self.blocks

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:  # noqa: ARG002 - for subclasses
        """Return None if an element is kept, otherwise the name under which it is counted (see `hidden`)."""
        return self.hidden.get(tag)

    def forget_space(self) -> None:
        """Forget pending white space, so that the next text joins the last word. A pending line end is kept."""
        self._gap = self._gap.strip(f" {SOFT_END}")

    # ---- methods that the parser calls

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = tag.rpartition("}")[2]
        if not self.is_hidden and (reason := self.hides(tag, attributes)) is not None:
            self.is_hidden = True
            if reason:
                self.left_out[reason] += 1
        if self.is_hidden:
            self._n_hidden += 1
            return
        self._n_preformatted += tag in self.preformatted
        self._separate(tag)
        if inserted := self.inserts.get(tag):
            self.write(inserted)
        self.parents.append(tag)

    def end(self, tag: str) -> None:
        if self.is_hidden:
            self._n_hidden -= 1
            self.is_hidden = self._n_hidden > 0
            return
        tag = self.parents.pop()
        self._n_preformatted -= tag in self.preformatted
        self._separate(tag)

    def data(self, text: str) -> None:
        if self.is_hidden:
            return
        if self._n_preformatted:
            self.write(text.removeprefix("\n") if self._gap == "\n" else text)
            return
        self._add_gap(text[: len(text) - len(text.lstrip(SPACES))])
        if words := WHITE_SPACE.sub(" ", END_IN_WIDE.sub("", text)).strip(" "):
            self.write(words)
            self._add_gap(text[len(text.rstrip(SPACES)) :])

    def close(self) -> str:
        """End the last line, and return the whole text."""
        self._gap = "\n"
        self.write("")
        return "".join(self._written)

    def write(self, text: str) -> None:
        """Write text as it is, after the pending white space."""
        if self._gap == SOFT_END:
            self._gap = "" if WIDE.match(self._last) and WIDE.match(text) else " "
        if self._written and not (self._gap == "\n" and self._last == "\n"):
            text = self._gap + text
        if text:
            self._written.append(text)
            self._last = text[-1]
        self._gap = ""

    def _add_gap(self, space: str) -> None:
        """Remember that white space precedes the next text, unless other white space is pending."""
        if space and not self._gap:
            self._gap = SOFT_END if "\n" in space or "\r" in space else " "

    def _separate(self, tag: str) -> None:
        if self.is_block(tag):
            self._gap = "\n"
        elif tag in self.soft_ends:
            self._gap = self._gap or SOFT_END
        elif tag in self.spaces and self._gap != "\n":
            self._gap = " "
