"""HTML and Markdown give the text that a reader of the page sees; an epub gives its chapters, or is an error."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus.sources.formats.made import XHTML, epub

from bukva.corpus.sources.formats.base import BadTextError, TextFile
from bukva.corpus.sources.formats.markup import html_text, read_html, read_markdown
from bukva.corpus.sources.formats.zipped import read_epub


def markdown_text(tmp_path, markdown: str) -> str:
    path = tmp_path / "a.md"
    path.write_bytes(markdown.encode())
    (text,) = read_markdown(TextFile(path, "a.md"))
    return text.content


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
        ("<ruby>山<rt>やま</rt></ruby>を<ruby>見<rp>(</rp><rt>み</rt><rp>)</rp></ruby>る", "山を見る\n"),
        ("<ruby>山<rp>(<rt>やま<rp>)</ruby>を", "山を\n"),  # HTML lets these tags end by themselves
        ("<ruby><rb>漢<rt>かん<rb>字<rt>じ</ruby>を", "漢字を\n"),
        ("да<p hidden>нет</p><i style='color: red; DISPLAY :none'>нет<b>нет</b></i><dialog>нет</dialog>", "да\n"),
        ("<dialog open>да</dialog><datalist><option>нет</datalist><video>нет</video>да", "да\nда\n"),
        ("<body style='visibility: hidden'>да<br hidden>да", "дада\n"),
        ("<p>山を見る、\n  海を\r\n見る。\n ABC\nの 山", "山を見る、海を見る。 ABC の 山\n"),
        ("<p>그는\n바다를", "그는 바다를\n"),
        ("<p>山<b>を\n</b>見<table><tr><td>海\n<td>\n見</table>\n<pre>山</pre>", "山を見\n海 見\n山\n"),
        ("<p>" + "山\n" * 5003, "山" * 5003 + "\n"),  # libxml2 divides a long text
    ],
    ids=range(21),
)
def test_the_text_of_a_page(html, text) -> None:
    assert html_text(html) == text


def test_hidden_parts_of_a_page_are_counted_but_not_scripts_and_brackets(tmp_path) -> None:
    ruby = "<ruby>山<rp>(</rp><rt>やま</rt><rp>)</rp></ruby>"
    hidden = "<script hidden>x</script><p hidden>a<b hidden>b</b></p><i hidden>c</i>"
    (tmp_path / "a.html").write_text(ruby + hidden)
    notes: list[tuple[str, str]] = []
    (text,) = read_html(TextFile(tmp_path / "a.html", "a.html", note=lambda *note: notes.append(note)))
    assert text.content == "山\n"
    assert notes == [("files_with_parts_left_out", "ruby readings: 1, hidden elements: 2")]


PROSE = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья\nнесчастлива по-своему."
VERSE = "Я помню чудное мгновенье:\nПередо мной явилась ты,\nКак *мимолётное* виденье,\nКак гений чистой красоты."


def test_a_paragraph_of_markdown_keeps_its_lines_if_most_of_them_are_short(tmp_path) -> None:
    """The last line of prose is short in any case, and some lines of verse are long."""
    long = "Долгая строка, каких в стихах бывает мало, потому что их трудно прочесть"
    prose, verse = PROSE.replace("\n", " "), VERSE.replace("*", "")
    assert markdown_text(tmp_path, f"{PROSE}\n\n{VERSE}") == f"{prose}\n{verse}\n"
    assert markdown_text(tmp_path, f"> {VERSE}\n{long}\nда") == f"{verse}\n{long}\nда\n"
    chinese = "这是一个很长的段落，它在源文件中折行了，但是在页面上不应该有空格，"
    assert markdown_text(tmp_path, f"{chinese}\n{chinese}\n{chinese}") == f"{chinese * 3}\n"
    assert markdown_text(tmp_path, "床前明月光，\n疑是地上霜。") == "床前明月光，\n疑是地上霜。\n"
    assert markdown_text(tmp_path, f"- {long}\n  {long}\n  коротко\n  да") == f"{long} {long} коротко да\n"


def test_paragraphs_that_are_taken_for_verse_are_counted(tmp_path) -> None:
    (tmp_path / "a.md").write_text(f"{PROSE}\n\n{VERSE}\n\n{VERSE}\n\nраз\\\nдва\n\nодин")
    notes: list[tuple[str, str]] = []
    list(read_markdown(TextFile(tmp_path / "a.md", "a.md", note=lambda *note: notes.append(note))))
    assert notes == [("markdown_with_short_lines", "2 paragraphs")]


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        (f"# Заголовок\n\n{PROSE}\n\nАбзац.", "Заголовок\n" + PROSE.replace("\n", " ") + "\nАбзац.\n"),
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


def text_of(path: Path, note: Callable[[str, str], None] = pytest.fail) -> str:
    (text,) = read_epub(TextFile(path, f"books/{path.name}", note=note))
    return text.content


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
        (ROOT.replace("full-path", "path"), "", "''"),
    ],
    ids=range(3),
)
def test_a_book_without_a_part_of_its_structure_is_an_error(container, package, why, tmp_path) -> None:
    with pytest.raises(
        BadTextError, match=rf"^books/a\.epub: is damaged, or is not an epub \(.*{why}.*\)\. Get the file"
    ):
        text_of(bare(tmp_path / "a.epub", container, package))


def test_chapters_that_a_book_names_but_does_not_contain_are_told_and_the_others_read(tmp_path) -> None:
    chapters = dict.fromkeys(["a.xhtml", "b.xhtml", "c.xhtml"], "<p>раз</p>")
    path = epub(tmp_path / "a.epub", chapters, missing=["b.xhtml"])
    lost = bare(tmp_path / "b.epub", ROOT, PACKAGE.replace("<spine>", '<spine><itemref idref="gone"/>'), b"<p>x")
    out = bare(tmp_path / "c.epub", ROOT, PACKAGE.replace("a.html", "../../x"))
    notes: list[tuple[str, str]] = []
    texts = [text_of(path, lambda *note: notes.append(note)) for path in (path, lost, out)]
    assert texts == ["раз\nраз\n", "x\n", ""]
    assert notes == [("epubs_without_all_chapters", name) for name in ("OPS/b.xhtml", "idref gone", "../../x")]


def test_hidden_parts_of_all_chapters_are_counted_together(tmp_path) -> None:
    notes: list[tuple[str, str]] = []
    path = epub(tmp_path / "a.epub", dict.fromkeys(["a", "b"], "<p>山<rt>やま</rt><i hidden='hidden'>x</i></p>"))
    assert text_of(path, lambda *note: notes.append(note)) == "山\n山\n"
    assert notes == [("files_with_parts_left_out", "ruby readings: 2, hidden elements: 2")]


def test_a_chapter_that_cannot_be_read_says_why_and_copy_protection_only_where_it_is(tmp_path) -> None:
    path = bare(tmp_path / "a.epub", ROOT, PACKAGE, b"<p>\0\xff")
    with pytest.raises(
        BadTextError, match=r"^books/a\.epub: is damaged, or is not an epub \(a\.html: .*\)\. Get the file again\.$"
    ):
        text_of(path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("META-INF/encryption.xml", '<x><CipherReference URI="a.html"/></x>')
    with pytest.raises(
        BadTextError, match=r"^books/a\.epub: a\.html is encrypted\. Get a file without copy protection\.$"
    ):
        text_of(path)


AND = "</dc:creator><dc:creator"


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ("", ("", "", "")),
        ("<dc:title> Нос \n повесть</dc:title><dc:creator>Гоголь</dc:creator>", ("Нос повесть", "Гоголь", "")),
        (f"<dc:creator opf:role='trl'>Нет{AND}>А{AND} opf:role='aut'>Б</dc:creator>", ("", "А, Б", "")),
        ("<dc:date>2008-06-26</dc:date>", ("", "", "")),  # of the file
        (
            "<dc:date opf:event='modification'>2008</dc:date><dc:date opf:event='creation'>1835-01</dc:date>",
            ("", "", "1835"),
        ),
    ],
    ids=range(5),
)
def test_a_book_names_its_title_its_authors_and_the_year_of_the_work(metadata, names, tmp_path) -> None:
    path = epub(tmp_path / "a.epub", {"a": ""}, metadata=metadata)
    (text,) = read_epub(TextFile(path, "a.epub"))
    assert (text.title, text.author, text.year) == names


@pytest.mark.parametrize("bomb", [False, True])
def test_entities_of_a_document_are_not_expanded_or_fetched(bomb, tmp_path) -> None:
    (tmp_path / "secret").write_text("secret")
    entities = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9 if bomb else 0))
    use = f"&s;&a{9 if bomb else 0};"
    doctype = f'<!DOCTYPE p [<!ENTITY a0 "haha"><!ENTITY s SYSTEM "file://{tmp_path}/secret">{entities}]>'
    container, package = (doctype + text.replace(">", f">{use}", 1) for text in (ROOT, PACKAGE))
    book = bare(tmp_path / "a.epub", container, package, f"{doctype}<p>ж{use}</p>".encode())
    if bomb:
        with pytest.raises(BadTextError, match=r"books/a\.epub: is damaged"):
            text_of(book)
    else:
        text = text_of(book)
        assert "ж" in text
        assert "secret" not in text
        assert "haha" not in text
