"""HTML and Markdown give the text that a reader of the page sees; subtitles give the spoken lines."""

import pytest
from corpus.sources.formats.made import file, read

from bukva.corpus.sources.formats.pages import html_text


def markdown_text(tmp_path, markdown: str) -> str:
    return read(file(tmp_path / "a.md", markdown))[0]


@pytest.mark.parametrize(
    ("html", "text"),
    [
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
        ("да<p hidden>нет</p><i style='color: red; DISPLAY :none'>нет<b>нет</b></i><dialog>нет</dialog>", "да\n"),
        ("<dialog open>да</dialog><datalist><option>нет</datalist><video>нет</video>да", "да\nда\n"),
        ("<body style='visibility: hidden'>да<br hidden>да", "дада\n"),
        ("<p>山を見る、\n  海を\r\n見る。\n ABC\nの 山", "山を見る、海を見る。 ABC の 山\n"),
        ("<p>그는\n바다를", "그는 바다를\n"),
        ("<p>山<b>を\n</b>見<table><tr><td>海\n<td>\n見</table>\n<pre>山</pre>", "山を見\n海 見\n山\n"),
        ("<p>" + "山\n" * 5003, "山" * 5003 + "\n"),  # libxml2 divides a long text
    ],
    ids=range(18),
)
def test_the_text_of_a_page(html, text) -> None:
    assert html_text(html) == text


def test_hidden_parts_of_a_page_are_counted_but_not_scripts_and_brackets(tmp_path) -> None:
    ruby = "<ruby>山<rp>(</rp><rt>やま</rt><rp>)</rp></ruby>"
    hidden = "<script hidden>x</script><p hidden>a<b hidden>b</b></p><i hidden>c</i>"
    text, _, notes = read(file(tmp_path / "a.html", ruby + hidden))
    assert (text, notes) == ("山\n", [("files_with_parts_left_out", "ruby readings: 1, hidden elements: 2")])


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
    assert markdown_text(tmp_path, f"- {long}\n  {long}\n  коротко\n  да") == f"{long} {long} коротко да\n"
    path = file(tmp_path / "a.md", f"{PROSE}\n\n{VERSE}\n\n{VERSE}\n\nраз\\\nдва\n\nодин")
    assert read(path)[2] == [("markdown_with_short_lines", "2 paragraphs")]


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


def subtitles(*cues: str, times: str = "00:00:0{}.000 --> 00:00:0{}.500", number: str = "{}\n") -> str:
    heads = (number.format(n) + times.format(n, n) for n in range(1, len(cues) + 1))
    return "".join(f"{head}\n{cue}\n\n" for head, cue in zip(heads, cues, strict=True))


CUES = ('<i>Привет,</i>\n{\\an8}<font color="#ffff00">друг</font>.', "- Кто\nтам?\n- Я.", "раз\n\nдва после пустой")
SRT = subtitles(*CUES, times="00:00:0{},000 --> 00:00:0{},500 X1:40") + "00:00:06.000 --> 00:00:07.000\nбез номера\n5\n"
SRT += "00:00:08,000 --> 00:00:09,000\n1984\n\n6\n00:00:10,000 --> 00:00:11,000\na < b &amp; c > d\n\n"
SRT += "7\n00:00:12,000 --> 00:00:13,000\n\n"
SAID = "Привет, друг.\n- Кто там?\n- Я.\nраз два после пустой\nбез номера\n1984\na < b & c > d\n"

VTT = """WEBVTT - title
Kind: captions

NOTE a comment
more text

STYLE
::cue { color: red }

intro
00:01.000 --> 00:03.000 align:start position:0%
<v Roger Bingham>We are in <c.yellow>New York</c>

00:00:03.000 --> 00:00:05.000
<v.loud Neil>Tom &amp; Jerry&nbsp;&lt;3
- yes<00:00:04.000><c> sir</c>

NOTE
the end

00:00:06.000 --> 00:00:07.000
<ruby>山<rt>やま</rt></ruby>
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_subrip_gives_a_line_for_each_subtitle_and_speaker(line_end, tmp_path) -> None:
    path = file(tmp_path / "a.srt", "\ufeff" + SRT.replace("\n", line_end))
    assert read(path) == (SAID, ("", "", ""), [])
    assert read(file(tmp_path / "a.srt", "1\nраз\n"))[0] == ""  # without times


def test_webvtt_gives_the_same_without_notes_styles_and_names(tmp_path) -> None:
    said = "We are in New York\nTom & Jerry <3\n- yes sir\n山\n"
    assert read(file(tmp_path / "a.vtt", VTT)) == (said, ("", "", ""), [])


def test_lines_that_roll_up_are_said_once_and_counted_and_later_ones_again(tmp_path) -> None:
    rolling = " \nhello<00:00:00.500><c> world</c>", "hello world\n ", "hello world\nthis is next", "this is next\n "
    cues = subtitles(*rolling, times="00:00:0{}.000 --> 00:01:00.000", number="")
    late = "00:02:00.000 --> 00:02:01.000\nthis is next\n"
    text, _, notes = read(file(tmp_path / "a.vtt", f"WEBVTT\n\n{cues}{late}"))
    assert text == "hello world\nthis is next\nthis is next\n"
    assert notes == [("files_with_parts_left_out", "repeated lines: 3")]
