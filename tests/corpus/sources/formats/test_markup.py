"""HTML and Markdown give the text that a reader of the page sees."""

import pytest

from bukva.corpus.sources.formats.base import MAX_WHOLE_BYTES, TextFile, UnreadableError
from bukva.corpus.sources.formats.markup import html_text, read_html, read_markdown


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
        ("<table><tr><th>a<th>b<tr><td>1</td><td>2</td></table>", "a b\n1 2\n"),
        ("<pre>\n a\n\n  b</pre>после", " a\n\n  b\nпосле\n"),
        ("<head><title>нет</title><meta charset=cp1251></head><p>да", "да\n"),
        ("да<script>if (a < b) '<p>нет</p>'</script><style>p {}</style>", "да\n"),
        ("<!-- нет --><!DOCTYPE html>да<noscript>нет</noscript><svg><title>нет</title></svg>", "да\n"),
        ("a\0b", "a\ufffdb\n"),
        ("<div>" * 100_003 + "раз" + "</div>" * 100_003 + "два", "раз\nдва\n"),
    ],
    ids=range(12),
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


@pytest.mark.parametrize("markdown", ["[" * 5003, "> " * 5003 + "x", "*" * 5003 + "x"], ids=["links", "quotes", "bold"])
def test_markdown_that_is_very_deep_takes_no_time(markdown, tmp_path) -> None:
    markdown_text(tmp_path, markdown)


@pytest.mark.parametrize("read", [read_html, read_markdown])
def test_a_page_above_the_bound_is_an_error_before_it_is_read(read, tmp_path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(MAX_WHOLE_BYTES + 1)
    (text,) = read(TextFile(tmp_path / "a", "books/a"))
    words = r"^books/a: has 16777217 bytes, and a file of this type may have 16777216"
    with pytest.raises(UnreadableError, match=words):
        list(text.pieces)
