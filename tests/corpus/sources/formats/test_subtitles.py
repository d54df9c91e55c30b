"""Subtitles give the spoken lines, one for each subtitle and each speaker, without times and styles."""

from pathlib import Path

import pytest

from bukva.corpus.sources.formats.base import TextFile
from bukva.corpus.sources.formats.subtitles import read_subtitles

SRT = """1
00:00:01,000 --> 00:00:03,000
<i>Привет,</i>
{\\an8}<font color="#ffff00">друг</font>.

2
00:00:03,500 --> 00:00:05,000 X1:40 X2:600
- Кто
там?
- Я.

00:00:06.000 --> 00:00:07.000
без номера

4
00:00:08,000 --> 00:00:09,000
раз

два после пустой
5
00:00:10,000 --> 00:00:11,000
1984

6
00:00:12,000 --> 00:00:13,000
a < b &amp; c > d

7
00:00:12,000 --> 00:00:13,000

"""
SAID = "Привет, друг.\n- Кто там?\n- Я.\nбез номера\nраз два после пустой\n1984\na < b & c > d\n"

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

ROLLING = """WEBVTT

00:00:00.000 --> 00:00:02.000 align:start position:0%
_
hello<00:00:00.500><c> world</c>

00:00:02.000 --> 00:00:02.010 align:start position:0%
hello world
_

00:00:02.010 --> 00:00:04.000 align:start position:0%
hello world
this<00:00:02.500><c> is next</c>

00:00:04.000 --> 00:00:04.010 align:start position:0%
this is next
_

00:00:09.000 --> 00:00:10.000
this is next
""".replace("_", " ")


def read(path: Path, content: str) -> tuple[str, list[tuple[str, str]]]:
    """The text of a file of subtitles, and what is reported about it."""
    path.write_bytes(content.encode())
    notes: list[tuple[str, str]] = []
    (text,) = read_subtitles(TextFile(path, path.name, note=lambda *note: notes.append(note)))
    return text.content, notes


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_subrip_gives_a_line_for_each_subtitle_and_speaker(line_end, tmp_path) -> None:
    assert read(tmp_path / "a.srt", "\ufeff" + SRT.replace("\n", line_end)) == (SAID, [])


def test_webvtt_gives_the_same_without_notes_styles_and_names(tmp_path) -> None:
    assert read(tmp_path / "a.vtt", VTT) == ("We are in New York\nTom & Jerry <3\n- yes sir\n山\n", [])


def test_lines_that_roll_up_are_said_once_and_counted_and_later_ones_again(tmp_path) -> None:
    text, notes = read(tmp_path / "a.vtt", ROLLING)
    assert text == "hello world\nthis is next\nthis is next\n"
    assert notes == [("files_with_parts_left_out", "repeated lines: 3")]


def test_a_file_without_times_has_no_text(tmp_path) -> None:
    assert read(tmp_path / "a.srt", "1\nраз\n") == ("", [])
