"""HTML and Markdown give the text that a reader of the page sees; an epub gives its chapters, or is an error."""

import zipfile
from pathlib import Path

import pytest
from corpus.sources.formats.made import XHTML, epub

from bukva.corpus.sources.formats.base import BadTextError, TextFile
from bukva.corpus.sources.formats.epub import read_epub
from bukva.corpus.sources.formats.markup import html_text, read_markdown


def markdown_text(tmp_path, markdown: str) -> str:
    path = tmp_path / "a.md"
    path.write_bytes(markdown.encode())
    (text,) = read_markdown(TextFile(path, "a.md"))
    return "".join(text.pieces)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (" \n ", ""),
        ("Просто текст", "Просто текст\n"),
        ("<div><div><p>раз</p></div></div>\n\n<h1>два</h1>три<br>четыре", "раз\nдва\nтри\nчетыре\n"),
        ("<p>раз\n  два\t<b> три</b> <i>четыре</i><p>пять<b>шесть", "раз два три четыре\nпятьшесть\n"),
        ("<p>1&nbsp;&mdash;&lt;b&gt; &#1078; &#x436;", "1\u00a0—<b> ж ж\n"),
        ("<pre>\n a\n\n  b</pre>после", " a\n\n  b\nпосле\n"),
        ("<head><title>нет</title><meta charset=cp1251></head><p>да", "да\n"),
        ("да<script>if (a < b) '<p>нет</p>'</script><style>p {}</style>", "да\n"),
        ("<!-- нет --><!DOCTYPE html>да<noscript>нет</noscript><svg><title>нет</title></svg>", "да\n"),
        ("a\0b", "a\ufffdb\n"),
        ("<div>" * 100_003 + "раз" + "</div>" * 100_003 + "два", "раз\nдва\n"),
    ],
    ids=range(11),
)
def test_the_text_of_a_page(html, text) -> None:
    assert html_text(html) == text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("# Заголовок\n\nПервая строка\nвторая строка.\n\nАбзац.", "Заголовок\nПервая строка вторая строка.\nАбзац.\n"),
        ("[имя](http://x/ 'y') ![alt](pic.png) <http://y/>", "имя http://y/\n"),
        ("- раз\n- два\n  - три\n\n> цитата\n\n---\n\nпосле", "раз\nдва\nтри\nцитата\nпосле\n"),
        ("```python\ndef f():\n    return 1\n```\nпосле", "def f():\n    return 1\nпосле\n"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b\n1 2\n"),
        ("---\ntitle: нет\ndate: 2020\n---\n\nда", "да\n"),
        ("да <span class='x'>и это</span><script>нет</script>\n\n<!-- нет -->", "да и это\n"),
        ("> " * 31 + "x", "x\n"),
    ],
    ids=range(8),
)
def test_the_text_of_markdown(markdown, text, tmp_path) -> None:
    assert markdown_text(tmp_path, markdown) == text


def text_of(path: Path) -> str:
    (text,) = read_epub(TextFile(path, f"books/{path.name}"))
    return "".join(text.pieces)


def bare(path: Path, container: str, package: str = "", page: bytes = b"") -> Path:
    """A book of these parts only."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("META-INF/container.xml", container)
        file.writestr("b.opf", package)
        file.writestr("a.html", page)
    return path


ROOT = '<a><rootfile full-path="b.opf"/></a>'
SPINE = '<spine><itemref idref="a"/></spine></p>'
PACKAGE = f'<p><manifest><item id="a" href="a.html" media-type="text/html"/></manifest>{SPINE}'


@pytest.mark.parametrize("package", ["book.opf", "a/b/c.opf"])
def test_chapters_are_read_in_the_order_of_the_spine_without_the_contents(package, tmp_path) -> None:
    chapters = {
        "глава 1.xhtml": "<p>раз</p>",
        "a.xhtml": "<p>два<br/>три</p>",
        "nav.xhtml": "<li>нет</li>",
        "un.xhtml": "нет",
    }
    order = ["глава 1.xhtml", "nav.xhtml", "a.xhtml"]
    assert text_of(epub(tmp_path / "a.epub", chapters, order, package=package)) == "раз\nдва\nтри\n"


def test_a_chapter_in_another_encoding_is_read_as_it_declares(tmp_path) -> None:
    raw = XHTML.replace("utf-8", "windows-1251").format("<p>Ёж</p>").encode("cp1251")
    assert text_of(bare(tmp_path / "a.epub", ROOT, PACKAGE, raw)) == "Ёж\n"


@pytest.mark.parametrize(
    ("container", "package", "why"),
    [
        ("", "", "not XML"),
        (ROOT.replace("b.opf", "none.opf"), "", "'none.opf'"),
        (ROOT, PACKAGE.replace("a.html", "../../x"), r"'\.\./\.\./x'"),
    ],
    ids=range(3),
)
def test_a_book_without_a_part_of_its_structure_is_an_error(container, package, why, tmp_path) -> None:
    with pytest.raises(BadTextError, match=rf"^books/a\.epub: damaged, or not an epub \(.*{why}.*\); get the file"):
        text_of(bare(tmp_path / "a.epub", container, package))


@pytest.mark.parametrize("bomb", [False, True])
def test_entities_of_a_document_are_not_expanded_or_fetched(bomb, tmp_path) -> None:
    (tmp_path / "secret").write_text("secret")
    entities = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9 if bomb else 0))
    use = f"&s;&a{9 if bomb else 0};"
    doctype = f'<!DOCTYPE p [<!ENTITY a0 "haha"><!ENTITY s SYSTEM "file://{tmp_path}/secret">{entities}]>'
    container, package = (doctype + text.replace(">", f">{use}", 1) for text in (ROOT, PACKAGE))
    book = bare(tmp_path / "a.epub", container, package, f"{doctype}<p>ж{use}</p>".encode())
    if bomb:
        with pytest.raises(BadTextError, match=r"books/a\.epub: damaged"):
            text_of(book)
    else:
        text = text_of(book)
        assert "ж" in text
        assert "secret" not in text
        assert "haha" not in text
