"""HTML and Markdown: the text that a reader of the page sees, without the markup.

A block ends its line and a cell of a table ends with a space; elsewhere white space is one space, as in a browser, and
`pre` keeps its own. Links keep their text and lose their address; code is kept, because it belongs to the text;
scripts, styles, the head of a page and pictures are dropped. Markdown is turned into HTML first, so both follow the
same rules.
"""

import re
from collections.abc import Iterator

from bukva.corpus.sources.formats.base import Text, TextFile

# `display: block` in the HTML standard, section 15.3, and `br`
BLOCKS = frozenset([
    *["address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "dir"],
    *["div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"],
    *["header", "hgroup", "hr", "html", "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option"],
    *["p", "plaintext", "pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul", "xmp"],
])  # fmt: skip
CELLS = frozenset(["td", "th"])
HIDDEN = frozenset(["head", "script", "style", "template", "noscript", "iframe", "object", "svg", "title"])
MAX_LEVELS = 100  # of quotes and lists in Markdown, each a call within a call; deeper text is dropped
WHITE_SPACE = re.compile(r"[ \t\n\r\f]+")

# XHTML may close these in their own tag; HTML cannot, and would take the rest of the page for a script
CLOSED_AT_ONCE = re.compile(r"<(script|style|title|template|noscript|iframe|textarea)\b([^<>]*)/>", re.IGNORECASE)


def read_html(file: TextFile) -> Iterator[Text]:
    """The text of a page."""
    yield Text([html_text(file.whole())])


def read_markdown(file: TextFile) -> Iterator[Text]:
    """The text of a Markdown file: CommonMark with tables, and without front matter."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_LEVELS})
    parser = parser.enable(["table", "strikethrough"]).use(front_matter_plugin)
    yield Text([html_text(str(parser.render(file.whole())))])


def html_text(html: str) -> str:
    """The text of a page of HTML or XHTML; a line feed ends it, unless it is empty.

    libxml2 repairs what browsers repair, and never fetches anything.
    """
    from lxml import etree

    if html.lstrip().startswith("<?xml"):
        html = CLOSED_AT_ONCE.sub(r"<\1\2></\1>", html)
    parser = etree.HTMLParser(target=_Lines(), encoding="utf-8", huge_tree=True)
    # as UTF-8, so that the page's own declaration, which was obeyed when its bytes were decoded, is not obeyed again
    parser.feed(html.encode())
    return str(parser.close())


class _Lines:
    """Collects text from the events of a parser. `gap` is the white space before the next text, if there is one."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.gap = ""
        self.hidden = 0  # open elements from the outermost hidden one
        self.preformatted = 0

    def start(self, tag: str, _attributes: object) -> None:
        if self.hidden or tag in HIDDEN:
            self.hidden += 1
            return
        self.preformatted += tag == "pre"
        self._separate(tag)

    def end(self, tag: str) -> None:
        if self.hidden:
            self.hidden -= 1
            return
        self.preformatted -= tag == "pre"
        self._separate(tag)

    def data(self, text: str) -> None:
        if self.hidden:
            return
        if self.preformatted:
            self._write(text.removeprefix("\n") if self.gap == "\n" else text)
            return
        text = WHITE_SPACE.sub(" ", text)
        if text.startswith(" "):
            self.gap = self.gap or " "
        if words := text.strip(" "):
            self._write(words)
            self.gap = " " if text.endswith(" ") else ""

    def close(self) -> str:
        self.gap = "\n"
        self._write("")
        return "".join(self.written)

    def _separate(self, tag: str) -> None:
        if tag in BLOCKS:
            self.gap = "\n"
        elif tag in CELLS:
            self.gap = self.gap or " "

    def _write(self, text: str) -> None:
        if self.written and not (self.gap == "\n" and self.written[-1].endswith("\n")):
            self.written.append(self.gap)
        self.written.append(text)
        self.gap = ""
