"""Subtitles, .srt (SubRip) and .vtt (WebVTT): the spoken lines, without times, numbers, styles and names of speakers.

The lines of a subtitle are joined, because they end where the screen does; a dash begins the line of another
speaker. Where the next subtitle follows at once and begins with lines that were just shown, as captions that roll do,
these lines are left out and counted.
"""

import html
import re
from collections.abc import Iterator

from bukva.corpus.sources.formats.base import Text, TextFile

TIME = r"((?:\d+:)?\d+:\d+[.,]\d+)"
TIMES = re.compile(rf"\s*{TIME}\s*-->\s*{TIME}")
READING = re.compile(r"<rt>.*?</rt>")
TAG = re.compile(r"</?(?:b|i|u|s|font|c|v|lang|ruby|rt)\b[^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}", re.IGNORECASE)
DASHES = ("-", "–", "—", "‐", "―")
SECONDS_AT_ONCE = 0.05

Cue = tuple[float, float, list[str]]  # its first and last second, and its lines


def read_subtitles(file: TextFile) -> Iterator[Text]:
    """The text of a file of subtitles, a line for each of them and for each speaker."""
    lines, last, n_repeated = list[str](), (0.0, 0.0, list[str]()), 0
    for cue in _cues(file.whole()):
        repeated = _n_repeated(last, cue)
        n_repeated += repeated
        for number, line in enumerate(cue[2][repeated:]):
            if number and not line.startswith(DASHES):
                lines[-1] += f" {line}"
            else:
                lines.append(line)
        last = cue
    file.note_left_out({"lines shown again": n_repeated})
    yield Text(["".join(f"{line}\n" for line in lines)])


def _cues(text: str) -> Iterator[Cue]:
    """The subtitles of a file that have text."""
    is_vtt, lines = text.startswith("WEBVTT"), text.splitlines()
    starts = [(number, times) for number, line in enumerate(lines) if (times := TIMES.match(line))]
    ends = [*(number for number, _ in starts[1:]), len(lines)]
    for (number, times), end in zip(starts, ends, strict=False):  # a file without times has an end all the same
        shown = lines[number + 1 : end]
        if is_vtt:  # an empty line ends it, and notes, styles and the name of the next one follow
            shown = shown[: shown.index("")] if "" in shown else shown
        elif end < len(lines) and shown and shown[-1].strip().isdecimal():  # the number of the next one
            del shown[-1]
        shown = [" ".join(html.unescape(TAG.sub("", READING.sub("", line))).split()) for line in shown]
        if shown := [line for line in shown if line]:
            yield _seconds(times[1]), _seconds(times[2]), shown


def _seconds(time: str) -> float:
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def _n_repeated(last: Cue, cue: Cue) -> int:
    """How many lines at the start of a subtitle are the last ones of that before, which it follows at once."""
    if cue[0] > last[1] + SECONDS_AT_ONCE:
        return 0
    sizes = range(min(len(last[2]), len(cue[2])), 0, -1)
    return next((size for size in sizes if last[2][-size:] == cue[2][:size]), 0)
