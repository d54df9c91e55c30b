"""What of val and test also stands in train, and how train is cut so that it does not.

Held-out spans are those of `codes`, train's those of `text`, as in duplicates.py.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.core.progress import Read, unread
from bukva.corpus.repeats.duplicates import MIN_CHARS, chars_read, passages_between, runs_between
from bukva.corpus.repeats.grams import ENTRIES, index_parts, n_parts, scan_grams, spread
from bukva.corpus.repeats.lookup import Codes, Ints, Spans

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (8, 16, 32, 64)  # a word and a half, half a line, a line, a sentence
MOST_WINDOWS = ENTRIES  # one index; 0.02 points is the standard error of a share of 25 % of them


class Seen(NamedTuple):
    """How many windows of n characters were looked up, and how many of them stand in train."""

    windows: int
    in_train: int


class Run(NamedTuple):
    """The same characters in two places of the joined corpus."""

    start_a: int
    start_b: int
    chars: int


def seen_in_train(
    codes: Codes, held_out: list[Spans], text: Codes, trains: list[Spans], n: int, read: Read = unread
) -> list[list[Seen]]:
    """Windows of n characters in the spans of each held-out text that also stand within a span of train.

    One row for each of `trains`: what stands in it or in those before it. So train before and after a cut are read
    once, as what is left and what lost text. Every position is a window. If the held-out texts have more than
    MOST_WINDOWS together, so many of them are looked up, evenly spaced: train is read once for each n, however much is
    held out.
    """
    spans, texts = _joined(held_out)
    windows, in_train = np.zeros(len(held_out), np.int64), np.zeros((len(trains), len(held_out)), np.int64)
    for index in index_parts(codes, spans, n, _step(spans)):
        text_of = texts[np.searchsorted(spans[:, 0], index.positions, side="right") - 1]  # (M,)
        windows += np.bincount(text_of, minlength=len(held_out))
        found = np.zeros(len(index.hashes), np.bool_)
        for train, counted in zip(trains, in_train, strict=True):
            for _ in scan_grams(codes, index, text, train, found, read=read):
                pass
            counted += np.bincount(text_of[spread(index, found)], minlength=len(held_out))
    return [[Seen(*pair) for pair in zip(windows.tolist(), row, strict=True)] for row in in_train.tolist()]


def longest_runs(
    codes: Codes, held_out: list[Spans], text: Codes, trains: list[Spans], read: Read = unread
) -> list[list[Run | None]]:
    """The longest run of characters in a span of each held-out text (a) and a span of train (b).

    One row for each of `trains`, as in seen_in_train. None where no run has SEED characters; runs without text (rows of
    dots) do not count. If there are more than MOST_WINDOWS positions, a run may be missed that has fewer than SEED
    characters more than lie between two of them.
    """
    spans, texts = _joined(held_out)
    longest: list[Run | None] = [None] * len(held_out)
    rows = []
    for train in trains:
        for runs in runs_between(codes, spans, text, train, _step(spans), read):
            text_of = texts[runs[:, 0]]
            for number in np.unique(text_of):
                longest[number] = max(longest[number], _longest(runs[text_of == number, 2:]), key=_chars)
        rows.append(longest.copy())
    return rows


def _joined(texts: list[Spans]) -> tuple[Spans, npt.NDArray[np.int8]]:
    """The spans of several texts, ascending, without empty ones, and which text each is of."""
    spans, numbers = np.concatenate(texts), np.repeat(np.arange(len(texts), dtype=np.int8), list(map(len, texts)))
    filled = np.flatnonzero(spans[:, 1] > spans[:, 0])
    order = filled[np.argsort(spans[filled, 0], kind="stable")]
    return spans[order], numbers[order]


def _longest(runs: Ints) -> Run:
    """The first of the longest of (m, 3) runs."""
    return Run(*runs[runs[:, 2].argmax()].tolist())


def _chars(run: Run | None) -> int:
    return run.chars if run else 0


def _step(spans: Spans) -> int:
    """1, or as many characters as leave MOST_WINDOWS positions."""
    return max(1, -(-int((spans[:, 1] - spans[:, 0]).sum()) // MOST_WINDOWS))


def chars_to_search(held_out: list[Spans], trains: list[Spans]) -> int:
    """How many characters seen_in_train with all LENGTHS and longest_runs read together, about."""
    spans, train = _joined(held_out)[0], np.concatenate(trains)
    step = _step(spans)
    parts = sum(n_parts(spans, n, step) for n in LENGTHS)
    return parts * int(np.diff(train).sum()) + chars_read(spans, train, step)


def chars_to_cut(held_out: Spans, train: Spans, min_chars: int) -> int:
    """How many characters cut_from reads, about."""
    return n_parts(held_out, min_chars) * int(np.diff(train).sum()) + chars_read(held_out, train)


def cut_from(
    codes: Codes,
    held_out: Spans,
    text: Codes,
    train: Spans,
    works: Spans,
    min_chars: int = MIN_CHARS,
    read: Read = unread,
) -> Ints:
    """What remains of train: (m, 3) rows of work (a row of train and of works), start and stop in the joined corpus.

    Passages of train that stand in held-out text of another work, exactly or nearly (duplicates.py), are cut out.
    Afterwards no min_chars characters of that text stand in the remaining text of a work, not even across a cut. What a
    work repeats of itself stays: its refrains belong to it. Between two cuts, or a cut and the end of the share, pieces
    shorter than min_chars go too. A share in which nothing is cut stays as it is.
    """
    near = _of_other_works(passages_between(codes, held_out, text, train, min_chars, read), works)
    cuts = _union([near, *_equal_windows(codes, held_out, text, train, works, min_chars, read)])
    while True:
        pieces = _remaining(train, cuts, min_chars)
        across = _across_cuts(codes, pieces, held_out, works, min_chars)
        if not len(across):
            return pieces
        cuts = _union([cuts, across])


def _of_other_works(passages: "pd.DataFrame", works: Spans) -> Spans:
    """(m, 2) the spans of train of passages between two works."""
    a, b = (np.searchsorted(works[:, 1], passages[start], side="right") for start in ("start_a", "start_b"))
    return passages.loc[a != b, ["start_b", "stop_b"]].to_numpy()


def _equal_windows(
    codes: Codes, held_out: Spans, text: Codes, spans: Spans, own: Spans, n: int, read: Read = unread
) -> Iterator[Spans]:
    """What windows of n characters cover in the (m, 2) spans of a text that stand in held_out, but not in the row's own
    work: of any text, and any number of times."""
    for index in index_parts(codes, held_out, n):
        yield from scan_grams(codes, index, text, spans, np.zeros(len(index.hashes), np.bool_), own, read)


def _across_cuts(codes: Codes, pieces: Ints, held_out: Spans, works: Spans, n: int) -> Spans:
    """What to cut after a cut, because n characters from before and after it stand together in held_out."""
    left, right = pieces[:-1], pieces[1:]
    is_cut = left[:, 0] == right[:, 0]
    stops, starts = left[is_cut, 2], right[is_cut, 1]  # (c,) where text before a cut stops, and starts again
    if not len(stops):
        return np.empty((0, 2), np.int64)
    around = np.arange(n - 1)
    places = np.concatenate([stops[:, None] - (n - 1) + around, starts[:, None] + around], axis=1)  # (c, 2n - 2)
    lines = np.arange(len(stops) + 1) * (2 * n - 2)
    spans = np.stack([lines[:-1], lines[1:]], axis=1)
    own = works[left[is_cut, 0]]
    found = [np.empty((0, 2), np.int64), *_equal_windows(codes, held_out, codes[places.ravel()], spans, own, n)]
    cut, at = np.divmod(np.concatenate(found)[:, 1] - n, 2 * n - 2)  # where the last of equal windows starts
    return np.stack([starts[cut], starts[cut] + at + 1], axis=1)  # it has at + 1 characters after the cut


def _union(spans: list[Spans]) -> Spans:
    """(m, 2) spans, overlapping ones joined; ones that only touch may be of two works."""
    all_spans = np.concatenate(spans)
    starts, stops = all_spans[np.argsort(all_spans[:, 0], kind="stable")].T
    stops = np.maximum.accumulate(stops)
    is_first, is_last = np.ones((2, len(starts)), np.bool_)
    is_first[1:] = is_last[:-1] = starts[1:] >= stops[:-1]
    return np.stack([starts[is_first], stops[is_last]], axis=1)


def _remaining(train: Spans, cuts: Spans, min_chars: int) -> Ints:
    """(m, 3) work, start, stop: train without the (c, 2) cuts, each of which is within one span."""
    pieces: list[tuple[int, int, int]] = []
    first = np.searchsorted(cuts[:, 0], train[:, 0])
    last = np.searchsorted(cuts[:, 0], train[:, 1])
    for work, (start, stop) in enumerate(train.tolist()):
        of_work = cuts[first[work] : last[work]]
        starts, stops = [start, *of_work[:, 1].tolist()], [*of_work[:, 0].tolist(), stop]
        is_whole = len(starts) == 1 and stop > start
        pieces += [(work, a, b) for a, b in zip(starts, stops, strict=True) if is_whole or b - a >= min_chars]
    return np.array(pieces, np.int64).reshape(-1, 3)
