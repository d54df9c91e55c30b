"""Read subtitle files, .srt (SubRip) and .vtt (WebVTT), without times, numbers, styles and speaker names.

The lines of one subtitle are joined, because they are only broken to fit the screen. A line that begins with a dash
belongs to another speaker and stays separate. Rolling captions show lines of one subtitle again in the next subtitle.
Such repeated lines are left out and counted.
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
MAX_GAP_SECONDS = 0.05  # after a longer gap, a subtitle does not repeat lines of the previous subtitle

Cue = tuple[float, float, list[str]]  # one subtitle: its start and end in seconds, and its lines


def read_subtitles(file: TextFile) -> Iterator[Text]:
    """Yield the text of a subtitle file, one line for each subtitle and speaker."""
    lines, previous, n_left_out = list[str](), (0.0, 0.0, list[str]()), 0
    for cue in _cues(file.text()):
        n_repeated = _n_repeated(previous, cue)
        n_left_out += n_repeated
        for number, line in enumerate(cue[2][n_repeated:]):
            if number and not line.startswith(DASHES):
                lines[-1] += f" {line}"
            else:
                lines.append(line)
        previous = cue
    file.note_left_out({"repeated lines": n_left_out})
    yield Text("".join(f"{line}\n" for line in lines))


def _cues(text: str) -> Iterator[Cue]:
    """Yield the subtitles of a file, except subtitles without text."""
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


def _n_repeated(previous: Cue, cue: Cue) -> int:
    """Return how many lines at the start of `cue` repeat the last lines of `previous`."""
    if cue[0] > previous[1] + MAX_GAP_SECONDS:
        return 0
    sizes = range(min(len(previous[2]), len(cue[2])), 0, -1)
    return next((size for size in sizes if previous[2][-size:] == cue[2][:size]), 0)
