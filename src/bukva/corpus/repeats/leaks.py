"""What of val and test also stands in train, and how train is cut so that it does not."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bukva.corpus.repeats.duplicates import MIN_CHARS, chars_read, passages_between, runs_between
from bukva.corpus.repeats.grams import (
    ENTRIES,
    Codes,
    Ints,
    Read,
    Spans,
    index_parts,
    n_parts,
    scan_grams,
    spread,
    unread,
)

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = (8, 16, 32, 64)  # a word and a half, half a line, a line, a sentence
MOST_WINDOWS = ENTRIES  # one index; 0.02 points is the standard error of a share of 25 % of them


class Seen(NamedTuple):
    """How many windows of n characters were looked up, and how many of them stand in train."""

    windows: int
    in_train: int


class Run(NamedTuple):
    """The same characters in two works: rows of the spans, and where in the joined corpus."""

    work_a: int
    work_b: int
    start_a: int
    start_b: int
    chars: int


def seen_in_train(codes: Codes, held_out: Spans, train: Spans, n: int, read: Read = unread) -> Seen:
    """Windows of n characters in the held-out spans that also stand within a span of train.

    Every position is one. If there are more than MOST_WINDOWS, so many of them are looked up, evenly spaced: then train
    is read a few times, however much is held out.
    """
    windows = in_train = 0
    codes = np.asarray(codes)
    for index in index_parts(codes, held_out, n, _step(held_out)):
        found = np.zeros(len(index.hashes), np.bool_)
        for _ in scan_grams(codes, index, codes, train, found, read=read):
            pass
        windows += len(found)
        in_train += int(spread(index, found).sum())
    return Seen(windows, in_train)


def longest_run(codes: Codes, held_out: Spans, train: Spans, read: Read = unread) -> Run | None:
    """The longest run of characters in a held-out span (work_a) and a span of train (work_b); the first one of equal
    length. None if none has SEED characters; runs without text (rows of dots) do not count. If there are more than
    MOST_WINDOWS positions, a run may be missed that has fewer than SEED characters more than lie between two of them.
    """
    longest = None
    for runs in runs_between(codes, held_out, codes, train, _step(held_out), read):
        best = runs[:, 4].argmax()
        if longest is None or runs[best, 4] > longest.chars:
            longest = Run(*runs[best].tolist())
    return longest


def _step(spans: Spans) -> int:
    """1, or as many characters as leave MOST_WINDOWS positions."""
    return max(1, -(-int((spans[:, 1] - spans[:, 0]).sum()) // MOST_WINDOWS))


def chars_to_search(held_out: Spans, train: Spans) -> int:
    """How many characters seen_in_train with all LENGTHS and longest_run read together, about."""
    step = _step(held_out)
    parts = sum(n_parts(held_out, n, step) for n in LENGTHS)
    return parts * int(np.diff(train).sum()) + chars_read(held_out, train, step)


def chars_to_cut(held_out: Spans, train: Spans, min_chars: int) -> int:
    """How many characters cut_from reads, about."""
    return n_parts(held_out, min_chars) * int(np.diff(train).sum()) + chars_read(held_out, train)


def cut_from(
    codes: Codes, train: Spans, held_out: Spans, works: Spans, min_chars: int = MIN_CHARS, read: Read = unread
) -> Ints:
    """What remains of train: (m, 3) rows of work (a row of train and of works), start and stop in the joined corpus.

    Passages of train that stand in held-out text of another work, exactly or nearly (duplicates.py), are cut out.
    Afterwards no min_chars characters of that text stand in the remaining text of a work, not even across a cut. What a
    work repeats of itself stays: its refrains belong to it. Between two cuts, or a cut and the end of the share, pieces
    shorter than min_chars go too. A share in which nothing is cut stays as it is.
    """
    codes = np.asarray(codes)
    near = _of_other_works(passages_between(codes, held_out, train, min_chars, read), works)
    cuts = _union([near, *_equal_windows(codes, held_out, codes, train, works, min_chars, read)])
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
