"""Read HTML and Markdown as the text that a browser shows, without the markup.

A block element begins and ends a line, and a space separates the cells of a table. White space is collapsed as in a
browser, except in `pre`. The text of links is kept, but not their URLs. Code is kept because it is part of the text.
Scripts, styles, pictures and the head of a page are dropped. Hidden elements and ruby readings (small characters that
show the pronunciation) are left out and counted. Markdown is converted to HTML first, so the same rules apply to it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bukva.core.words import count
from bukva.corpus.sources.formats.base import Text, TextFile
from bukva.corpus.sources.formats.lines import WIDE, LineCollector

if TYPE_CHECKING:
    from markdown_it.token import Token

HIDING_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)

# Maximum depth of nested quotes and lists in Markdown. The parser is recursive and drops deeper text.
MAX_LEVELS = 100
SHORT_LINE_CHARS = 60  # prose is usually wrapped at 65 characters or more, and most lines of verse are shorter

# XHTML may write these elements as empty tags (<script/>). An HTML parser ignores the slash and would treat the rest of
# the page as their content.
SELF_CLOSED = re.compile(r"<(script|style|title|template|noscript|iframe|textarea)\b([^<>]*)/>", re.IGNORECASE)
OPEN_READING = re.compile(r"(?=<rb\b)", re.IGNORECASE)  # this tag ends a ruby reading in HTML, but not in libxml2


class HtmlCollector(LineCollector):
    """Collects the visible text of an HTML page."""

    # The elements with `display: block` in the HTML standard, section 15.3, and `br`.
    blocks = frozenset([
        *["address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog"],
        *["dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5"],
        *["h6", "header", "hgroup", "hr", "html", "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup"],
        *["option", "p", "plaintext", "pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead", "tr"],
        *["ul", "xmp"],
    ])  # fmt: skip
    spaces = frozenset(["td", "th"])
    preformatted = frozenset(["pre"])
    hidden: Mapping[str, str] = {
        # The elements with `display: none` in the HTML standard, section 15.3.1, and those whose content browsers
        # replace.
        **dict.fromkeys(["head", "title", "script", "style", "template", "datalist", "noembed", "noframes"], ""),
        **dict.fromkeys(["noscript", "iframe", "object", "svg", "audio", "video", "canvas", "rp"], ""),
        **dict.fromkeys(["rt", "rtc"], "ruby readings"),
    }

    def hides(self, tag: str, attributes: Mapping[str, str]) -> str | None:
        if tag not in self.hidden and (
            "hidden" in attributes
            or (tag == "dialog" and "open" not in attributes)
            or HIDING_STYLE.search(attributes.get("style", ""))
        ):
            # a page that is hidden as a whole is kept, because a script may make it visible
            return None if tag in ("html", "body") else "hidden elements"
        return super().hides(tag, attributes)


def html_text(html: str, left_out: Counter[str] | None = None) -> str:
    """Return the text of an HTML or XHTML page. The text ends with a line feed, unless it is empty.

    The parser, libxml2, repairs invalid pages and fetches nothing from the network. The numbers of hidden elements and
    ruby readings are added to `left_out`.
    """
    from lxml import etree

    if html.lstrip().startswith("<?xml"):
        html = SELF_CLOSED.sub(r"<\1\2></\1>", html)
    collector = HtmlCollector()
    parser = etree.HTMLParser(target=collector, encoding="utf-8", huge_tree=True)
    # The page has already been decoded. With a given encoding, libxml2 ignores the encoding that the page declares.
    parser.feed(OPEN_READING.sub("</rt></rp>", html).encode())
    text = str(parser.close())
    if left_out is not None:
        left_out += collector.left_out
    return text


def read_html(file: TextFile) -> Iterator[Text]:
    """Yield the text of an HTML page."""
    yield _page(file.text(), file)


def read_markdown(file: TextFile) -> Iterator[Text]:
    """Yield the text of a Markdown file (CommonMark with tables), without its front matter.

    CommonMark joins the lines of a paragraph. But a paragraph of mostly short lines is probably verse and keeps its
    lines. The number of these paragraphs is reported.
    """
    from markdown_it import MarkdownIt
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_LEVELS})
    parser = parser.enable(["table", "strikethrough"]).use(front_matter_plugin)
    environment: dict[str, object] = {}
    tokens = parser.parse(file.text(), environment)
    verses = [token.children for token in tokens if token.children and _is_verse(token.children)]
    for child in (child for children in verses for child in children if child.type == "softbreak"):
        child.type = "hardbreak"
    if verses:
        file.note("markdown_with_short_lines", count(len(verses), "paragraph"))
    yield _page(str(parser.renderer.render(tokens, parser.options, environment)), file)


def _is_verse(children: "list[Token]") -> bool:
    """Return whether most lines of a paragraph are short, and CommonMark would join some of its lines."""
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
    return Text(text)
