"""HTML and Markdown: the text that a reader of the page sees, without the markup.

A block ends its line and a cell of a table ends with a space; elsewhere white space is one space, as in a browser, and
`pre` keeps its own. Links keep their text and lose their address; code is kept, because it belongs to the text;
scripts, styles, the head of a page and pictures are dropped. Hidden elements and the readings of ruby are left out and
counted. Markdown is turned into HTML first, so both follow the same rules.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bukva.corpus.sources.formats.base import Text, TextFile
from bukva.corpus.sources.formats.lines import WIDE, Lines

if TYPE_CHECKING:
    from markdown_it.token import Token

# `display: block` in the HTML standard, section 15.3, and `br`
BLOCKS = frozenset([
    *["address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "dir"],
    *["div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6"],
    *["header", "hgroup", "hr", "html", "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option"],
    *["p", "plaintext", "pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul", "xmp"],
])  # fmt: skip
# `display: none` there, section 15.3.1, and elements whose content browsers replace by something else
NEVER_SHOWN = frozenset([
    *["head", "title", "script", "style", "template", "datalist", "noembed", "noframes", "noscript"],
    *["iframe", "object", "svg", "audio", "video", "canvas"],
])  # fmt: skip
HIDING_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

MAX_LEVELS = 100  # of quotes and lists in Markdown, each a call within a call; deeper text is dropped
SHORT_LINE_CHARS = 60  # prose is wrapped at 65 characters or more; most lines of verse are shorter than that

# XHTML may close these in their own tag; HTML cannot, and would take the rest of the page for a script
CLOSED_AT_ONCE = re.compile(r"<(script|style|title|template|noscript|iframe|textarea)\b([^<>]*)/>", re.IGNORECASE)
OPEN_READING = re.compile(r"(?=<rb\b)", re.IGNORECASE)  # HTML ends a reading of ruby here; libxml2 does not


def read_html(file: TextFile) -> Iterator[Text]:
    """The text of a page."""
    yield _page(file.whole(), file)


def read_markdown(file: TextFile) -> Iterator[Text]:
    """The text of a Markdown file: CommonMark with tables, and without front matter.

    The lines of a paragraph are joined, as CommonMark says, unless most of them are short: then it is taken for verse.
    """
    from markdown_it import MarkdownIt
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_LEVELS})
    parser = parser.enable(["table", "strikethrough"]).use(front_matter_plugin)
    environment: dict[str, object] = {}
    tokens = parser.parse(file.whole(), environment)
    paragraphs = [token.children for token in tokens if token.children and _is_verse(token.children)]
    for child in (child for children in paragraphs for child in children if child.type == "softbreak"):
        child.type = "hardbreak"
    if paragraphs:
        file.note("markdown_with_short_lines", f"{len(paragraphs)} paragraphs")
    yield _page(str(parser.renderer.render(tokens, parser.options, environment)), file)


def _is_verse(children: "list[Token]") -> bool:
    """Return whether most lines of a paragraph are short. The last one does not count: it is short in prose as well."""
    lengths, is_joined = [0], False
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            lengths.append(0)
            is_joined = is_joined or child.type == "softbreak"
        else:
            lengths[-1] += len(child.content) + len(WIDE.findall(child.content))
    n_short = sum(length <= SHORT_LINE_CHARS for length in lengths[:-1])
    return is_joined and 2 * n_short > len(lengths) - 1


def _page(html: str, file: TextFile) -> Text:
    left_out = Counter[str]()
    text = html_text(html, left_out)
    file.note_left_out(left_out)
    return Text([text])


def html_text(html: str, left_out: Counter[str] | None = None) -> str:
    """The text of a page of HTML or XHTML; a line feed ends it, unless it is empty.

    libxml2 repairs what browsers repair, and never fetches anything.

    Args:
        html: the page.
        left_out: where the elements that have text but are left out are counted.
    """
    from lxml import etree

    if html.lstrip().startswith("<?xml"):
        html = CLOSED_AT_ONCE.sub(r"<\1\2></\1>", html)
    lines = HtmlLines()
    parser = etree.HTMLParser(target=lines, encoding="utf-8", huge_tree=True)
    # as UTF-8, so that the page's own declaration, which was obeyed when its bytes were decoded, is not obeyed again
    parser.feed(OPEN_READING.sub("</rt></rp>", html).encode())
    text = str(parser.close())
    if left_out is not None:
        left_out += lines.left_out
    return text


class HtmlLines(Lines):
    """The visible text of a page of HTML."""

    blocks = BLOCKS
    spaces = frozenset(["td", "th"])
    preformatted = frozenset(["pre"])
    hidden: Mapping[str, str] = {
        **dict.fromkeys([*NEVER_SHOWN, "rp"], ""),
        **dict.fromkeys(["rt", "rtc"], "ruby readings"),
    }

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:
        if tag not in self.hidden and (
            "hidden" in attributes
            or (tag == "dialog" and "open" not in attributes)
            or HIDING_STYLE.search(attributes.get("style", ""))
        ):
            # a script may show a page that hides itself as a whole
            return None if tag in ("html", "body") else "hidden elements"
        return super().hides(tag, attributes)
