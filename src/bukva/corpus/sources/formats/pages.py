"""Read HTML and Markdown as the text that a browser shows, and subtitles without their times and styles."""

import html
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from bukva.core.words import count
from bukva.corpus.sources.formats.base import Text, TextFile

if TYPE_CHECKING:
    from markdown_it.token import Token

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
    """Parser target for lxml that collects the text of an HTML or XML document, line by line.

    A block element begins and ends a line. Elsewhere, each run of white space becomes one space, as in a browser.
    The document is never in memory as a tree, and deeply nested elements need no recursion. Each format has a subclass
    with tables of its elements, named without their namespaces:

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
        self.n_hidden = 0  # number of open elements that are left out: the outermost one and those inside
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
        reason = "" if self.n_hidden else self.hides(tag, attributes)
        if reason is not None:
            self.n_hidden += 1
            self.left_out.update([reason] if reason else [])
            return
        self._n_preformatted += tag in self.preformatted
        self._separate(tag)
        if inserted := self.inserts.get(tag):
            self.write(inserted)
        self.parents.append(tag)

    def end(self, tag: str) -> None:
        if self.n_hidden:
            self.n_hidden -= 1
            return
        tag = self.parents.pop()
        self._n_preformatted -= tag in self.preformatted
        self._separate(tag)

    def data(self, text: str) -> None:
        if self.n_hidden:
            return
        if self._n_preformatted:
            self.write(text.removeprefix("\n") if self._gap == "\n" else text)
            return
        self._add_gap(text[: len(text) - len(text.lstrip(SPACES))])
        if words := WHITE_SPACE.sub(" ", END_IN_WIDE.sub("", text)).strip(" "):
            self.write(words)
            self._add_gap(text[len(text.rstrip(SPACES)) :])

    def close(self) -> str:
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


# ---- HTML and Markdown. The text of links and code are kept. Scripts, styles, pictures and the head of a page are
# dropped. Hidden elements and ruby readings (small characters that show the pronunciation) are left out and counted.

HIDING_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
MAX_LEVELS = 100  # maximum depth of quotes and lists in Markdown, whose parser is recursive and drops deeper text
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
        # The elements with `display: none` in the HTML standard, section 15.3.1, and those that browsers replace.
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


def html_text(page: str, left_out: Counter[str] | None = None) -> str:
    """Return the text of an HTML or XHTML page. The text ends with a line feed, unless it is empty.

    The parser, libxml2, repairs invalid pages and fetches nothing from the network. The numbers of hidden elements and
    ruby readings are added to `left_out`.
    """
    from lxml import etree

    if page.lstrip().startswith("<?xml"):
        page = SELF_CLOSED.sub(r"<\1\2></\1>", page)
    collector = HtmlCollector()
    parser = etree.HTMLParser(target=collector, encoding="utf-8", huge_tree=True)
    # The page has already been decoded. With a given encoding, libxml2 ignores the encoding that the page declares.
    parser.feed(OPEN_READING.sub("</rt></rp>", page).encode())
    text = str(parser.close())
    if left_out is not None:
        left_out += collector.left_out
    return text


def read_html(file: TextFile, page: str | None = None) -> Iterator[Text]:
    """Yield the text of an HTML page, which is the content of the file if `page` is None."""
    left_out = Counter[str]()
    text = html_text(file.text() if page is None else page, left_out)
    file.note_left_out(left_out)
    yield Text(text)


def read_markdown(file: TextFile) -> Iterator[Text]:
    """Yield the text of a Markdown file (CommonMark with tables), without its front matter.

    CommonMark joins the lines of a paragraph. But mostly short lines are probably verse, which is kept and reported.
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
    yield from read_html(file, str(parser.renderer.render(tokens, parser.options, environment)))


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


# ---- subtitles, without times, numbers, styles and speaker names

TIME = r"((?:\d+:)?\d+:\d+[.,]\d+)"
TIMES = re.compile(rf"\s*{TIME}\s*-->\s*{TIME}")
READING = re.compile(r"<rt>.*?</rt>")
TAG = re.compile(r"</?(?:b|i|u|s|font|c|v|lang|ruby|rt)\b[^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}", re.IGNORECASE)
DASHES = ("-", "–", "—", "‐", "―")  # a line that begins with a dash belongs to another speaker
MAX_GAP_SECONDS = 0.05  # after a longer gap, a subtitle does not repeat lines of the previous subtitle


def read_subtitles(file: TextFile) -> Iterator[Text]:
    """Yield the text of a .srt (SubRip) or .vtt (WebVTT), one line for each subtitle and speaker.

    The other lines of a subtitle are joined, because they are only broken to fit the screen. Rolling captions show
    lines of one subtitle again in the next one. Such repeated lines are left out and counted.
    """
    lines, previous, previous_end, n_left_out = list[str](), list[str](), 0.0, 0
    for start, end, shown in _subtitles(file.text()):
        sizes = range(min(len(previous), len(shown)), 0, -1) if start <= previous_end + MAX_GAP_SECONDS else ()
        n_repeated = next((size for size in sizes if previous[-size:] == shown[:size]), 0)
        n_left_out += n_repeated
        for number, line in enumerate(shown[n_repeated:]):
            if number and not line.startswith(DASHES):
                lines[-1] += f" {line}"
            else:
                lines.append(line)
        previous, previous_end = shown, end
    file.note_left_out({"repeated lines": n_left_out})
    yield Text("".join(f"{line}\n" for line in lines))


def _subtitles(text: str) -> Iterator[tuple[float, float, list[str]]]:
    """Yield the start and end in seconds and the lines of each subtitle that has text."""
    is_vtt, lines = text.startswith("WEBVTT"), text.splitlines()
    starts = [(number, times) for number, line in enumerate(lines) if (times := TIMES.match(line))]
    ends = [*(number for number, _ in starts[1:]), len(lines)]
    # not strict, because for a file without times, `ends` has one element and `starts` none
    for (number, times), end in zip(starts, ends, strict=False):
        shown = lines[number + 1 : end]
        if is_vtt:  # an empty line ends the subtitle; notes, styles or the name of the next subtitle may follow
            shown = shown[: shown.index("")] if "" in shown else shown
        elif end < len(lines) and shown and shown[-1].strip().isdecimal():  # the number of the next subtitle
            del shown[-1]
        shown = [" ".join(html.unescape(TAG.sub("", READING.sub("", line))).split()) for line in shown]
        if shown := [line for line in shown if line]:
            yield _seconds(times[1]), _seconds(times[2]), shown


def _seconds(time: str) -> float:
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds
