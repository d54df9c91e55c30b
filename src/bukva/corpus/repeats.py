"""Find text that occurs in two places, by the hashes of all its windows (sequences of n consecutive characters).

Windows with equal 64-bit hashes count as equal. If two texts of 10^7 characters each have no window in common, a window
is found by mistake with a probability of 5e-6.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bukva.text.characters import Codes
from bukva.text.ids import Spans

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that it has an inverse modulo 2^64
INVERSE = np.uint64(pow(int(BASE), -1, 1 << 64))
PIECE = 1 << 20  # number of windows that are hashed and looked up at once
# A changed passage is found by the windows of SEED characters in it that are unchanged.
SEED = 16
KINDS = 8  # minimum number of different characters in such a window, because rows of dots occur in many works
VARIETY = 2 / 3  # in a small alphabet, such as that of DNA, a window needs this fraction of the median number instead
MAX_GAP = 120  # maximum number of characters between two unchanged parts of a passage
MAX_DRIFT = 60  # maximum number of characters that were inserted or deleted in such a gap
MIN_EQUAL = 0.4  # minimum fraction of unchanged characters; a form of address between other sentences is no passage
# Maximum number of held-out windows that are looked up in train. If 25 % of them occur there, the standard error of
# this percentage is 0.02 percentage points.
MOST_WINDOWS = 1 << 22
MAX_COPIES = 64  # `equal_runs` finds only so many of the windows that are equal to one of the other text


class WindowIndex:
    """Index of windows of n characters of a text, to find them in other texts.

    positions: (P,) first character of each window, ascending.
    hashes: (M,) hashes of the M different windows, ascending.
    numbers: (P,) number of each window in `hashes`.
    """

    def __init__(self, codes: Codes, positions: Ints, n: int) -> None:
        self.n, self.positions = n, positions
        hashes = np.empty(len(positions), np.uint64)
        for start, of_piece in _hashes(codes, n):
            first, after = np.searchsorted(positions, [start, start + len(of_piece)])
            hashes[first:after] = of_piece[positions[first:after] - start]
        self.hashes, self.numbers = np.unique(hashes, return_inverse=True)
        # a table of the highest bits, which rules out most other windows without a search
        self._shift = np.uint64(61 - len(self.hashes).bit_length())
        self._is_known = np.zeros(1 << (64 - int(self._shift)), np.bool_)
        self._is_known[self.hashes >> self._shift] = True

    def find(self, text: Codes, spans: Spans) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield (k,) positions, rows of `spans` and numbers of the windows that occur within a span of a text."""
        for start, hashes in _hashes(text, self.n):
            at = np.flatnonzero(self._is_known[hashes >> self._shift])
            at = at[np.argsort(hashes[at])]  # numpy looks up ascending hashes several times faster
            numbers = np.searchsorted(self.hashes[:-1], hashes[at])  # of an equal hash, or of another one
            is_equal = self.hashes[numbers] == hashes[at]
            at, numbers = start + at[is_equal], numbers[is_equal]
            rows = np.searchsorted(spans[:, 0], at, side="right") - 1
            is_inside = (rows >= 0) & (at + self.n <= spans[rows, 1])
            yield at[is_inside], rows[is_inside], numbers[is_inside]


def _hashes(codes: Codes, n: int) -> Iterator[tuple[int, Hashes]]:
    """Yield hashes of consecutive windows of n characters, in pieces, each with the position of its first window."""
    # A hash is the polynomial of the window's code points in BASE, modulo 2^64. It is the difference of two prefix
    # sums, divided by a power of BASE.
    length = min(PIECE + n - 1, len(codes))
    powers, inverses = (np.cumprod(np.full(length, base), dtype=np.uint64) for base in (BASE, INVERSE))
    for start in range(0, len(codes) - n + 1, PIECE):
        piece = codes[start : start + PIECE + n - 1]
        sums = np.zeros(len(piece) + 1, np.uint64)
        np.cumsum(piece * powers[: len(piece)], out=sums[1:])
        yield start, (sums[n:] - sums[:-n]) * inverses[: len(piece) - n + 1]


def window_starts(spans: Spans, n: int) -> Ints:
    """Return the positions of all windows of n characters that lie within one of the spans."""
    return _ranges(spans[:, 0], np.maximum(spans[:, 1] - spans[:, 0] - n + 1, 0))


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return start, start + 1, ... for each start, joined."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(starts - ends + lengths, lengths)


# ---- the fraction of a text that occurs in train, and the passages that do


def seen_in_train(codes: Codes, held_out: list[Spans], text: Codes, train: Spans, n: int) -> list[float | None]:
    """Return the fraction of the windows of each held-out text that also occur in train, or None without windows.

    The held-out texts are (k, 2) ascending spans of `codes`, and train is (m, 2) ascending spans of `text`. Of very
    many windows, only about MOST_WINDOWS evenly spaced ones are looked up.
    """
    starts = [window_starts(spans, n) for spans in held_out]
    positions, texts = np.concatenate(starts), np.repeat(np.arange(len(starts)), list(map(len, starts)))
    order = np.argsort(positions)[:: max(1, -(-len(positions) // MOST_WINDOWS))]
    index, texts = WindowIndex(codes, positions[order], n), texts[order]
    is_seen = np.zeros(len(index.hashes), np.bool_)
    for _, _, numbers in index.find(text, train):
        is_seen[numbers] = True
    totals = np.bincount(texts, minlength=len(starts)).tolist()
    seen = np.bincount(texts, is_seen[index.numbers], len(starts)).tolist()
    return [part / total if total else None for part, total in zip(seen, totals, strict=True)]


def equal_runs(codes: Codes, spans: Spans, text: Codes, text_spans: Spans, n: int) -> Ints:
    """Return (m, 3) runs of at least n characters that occur in both texts: starts in both, and length."""
    index = WindowIndex(codes, window_starts(spans, n), n)
    order = np.argsort(index.numbers, kind="stable")
    edges = np.searchsorted(index.numbers[order], np.arange(len(index.hashes) + 1))
    copies = np.minimum(np.diff(edges), MAX_COPIES)  # (M,)
    pairs = [np.empty((2, 0), np.int64)]
    for at, _, numbers in index.find(text, text_spans):
        of_window = order[_ranges(edges[numbers], copies[numbers])]
        pairs.append(np.stack([index.positions[of_window], np.repeat(at, copies[numbers])]))
    starts, starts_in_text = np.concatenate(pairs, axis=1)
    diagonals = starts_in_text - starts  # constant within a run
    order = np.lexsort((starts, diagonals))
    starts, diagonals = starts[order], diagonals[order]
    continues = (np.diff(diagonals) == 0) & (np.diff(starts) == 1)
    firsts = _firsts(continues, len(order))
    lengths = np.diff(firsts, append=len(order)) + n - 1
    return np.stack([starts[firsts], starts[firsts] + diagonals[firsts], lengths], axis=1)


def _firsts(continues: Bools, n: int) -> Ints:
    """Return where each group of n windows begins, given whether each window but the first continues a group."""
    return np.append(np.arange(min(n, 1)), np.flatnonzero(~continues) + 1)


# ---- cut repeats out of train


def cut_from(codes: Codes, held_out: Spans, train: Spans, works: Spans, min_chars: int) -> Ints:
    """Return train without the passages that also occur, exactly or with small changes, in val or test.

    Afterwards, the train of a work and the held-out text of another work have no window of `min_chars` characters in
    common, not even across a cut. A passage that occurs only in held-out text of the same work is kept, because
    refrains belong to a work. If anything is cut out of a work, its shorter pieces are also cut out. `held_out` is
    (h, 2) ascending spans of `codes`. `train` and `works` have a row for each work. The result is (m, 3) remaining
    pieces: work, start and stop.
    """
    is_kept = np.zeros(len(codes), np.bool_)
    is_kept[_ranges(train[:, 0], np.diff(train)[:, 0])] = True
    copies = _changed_copies(codes, held_out, train, works, min_chars)
    index = WindowIndex(codes, window_starts(held_out, min_chars), min_chars)
    equal, _, _ = _in_other_works(index, codes, train, works)
    _clear(is_kept, np.concatenate([copies, np.stack([equal, equal + min_chars], axis=1)]))
    while True:
        pieces = _pieces(is_kept, train, min_chars)
        across = _across_cuts(index, codes, pieces, works)
        if not len(across):
            return pieces
        _clear(is_kept, across)


def _in_other_works(index: WindowIndex, text: Codes, spans: Spans, works: Spans) -> Ints:
    """Find windows of held-out text in `spans` of a text. Row i of `works` is the work with row i of `spans`."""
    # Returns (3, k) positions in `text`, rows of `spans`, and positions in held-out text of another work.
    ends = np.empty((2, len(index.hashes)), np.int64)  # where each different window occurs first and last
    ends[0, index.numbers[::-1]] = index.positions[::-1]
    ends[1, index.numbers] = index.positions
    found = [np.empty((3, 0), np.int64)]
    for at, rows, numbers in index.find(text, spans):
        (first, last), (start, stop) = ends[:, numbers], works[rows].T
        other = np.where((start <= first) & (first < stop), last, first)
        found.append(np.stack([at, rows, other])[:, (other < start) | (stop <= other)])
    return np.concatenate(found, axis=1)


def _changed_copies(codes: Codes, held_out: Spans, train: Spans, works: Spans, min_chars: int) -> Spans:
    """Return the passages of train that are copies, possibly changed, of held-out text of another work."""
    positions = window_starts(held_out, SEED)
    index = WindowIndex(codes, positions[_are_varied(codes, positions)], SEED)
    at, rows, others = _in_other_works(index, codes, train, works)
    owners = np.searchsorted(works[:, 1], others, side="right")  # the works that contain the held-out text
    order = np.lexsort((at, owners))
    at, rows, others, owners = at[order], rows[order], others[order], owners[order]
    # A window continues the passage of the window before it if both are of the same two works, and the gap between them
    # is short, and about as long in both texts.
    steps = np.diff(at)
    is_near = (steps <= SEED + MAX_GAP) & (np.abs(np.diff(others) - steps) <= MAX_DRIFT)
    continues = is_near & (np.diff(owners) == 0) & (np.diff(rows) == 0)
    firsts = _firsts(continues, len(at))
    starts, stops = at[firsts], np.append(at[firsts[1:] - 1], at[-1:]) + SEED
    n_new = np.append(SEED, np.where(continues, np.minimum(steps, SEED), SEED))  # unchanged characters, counted once
    n_equal = np.add.reduceat(n_new, firsts)
    is_copy = n_equal >= np.maximum(min_chars, MIN_EQUAL * (stops - starts))
    return np.stack([starts, stops], axis=1)[is_copy]


def _are_varied(codes: Codes, positions: Ints) -> Bools:
    """Return whether each window of SEED characters has as many different characters as a passage needs."""
    kinds = np.empty(len(positions), np.int64)
    for first in range(0, len(positions), PIECE):
        chars = np.sort(codes[positions[first : first + PIECE, None] + np.arange(SEED)], axis=1)
        kinds[first : first + PIECE] = 1 + np.count_nonzero(np.diff(chars), axis=1)
    return kinds >= min(KINDS, VARIETY * np.median(kinds)) if len(kinds) else np.zeros(0, np.bool_)


def _clear(is_kept: Bools, spans: Spans) -> None:
    for start, stop in spans.tolist():
        is_kept[start:stop] = False


def _pieces(is_kept: Bools, train: Spans, min_chars: int) -> Ints:
    """Return the remaining pieces of train (see `cut_from`), without the short ones, whose flags are set to False."""
    edges = np.unique(np.concatenate([np.flatnonzero(is_kept[1:] != is_kept[:-1]) + 1, train.ravel()]))
    starts, stops = edges[:-1], edges[1:]
    starts, stops = starts[is_kept[starts]], stops[is_kept[starts]]
    works = np.searchsorted(train[:, 0], starts, side="right") - 1
    is_long = (stops - starts >= min_chars) | ((starts == train[works, 0]) & (stops == train[works, 1]))
    _clear(is_kept, np.stack([starts, stops], axis=1)[~is_long])
    return np.stack([works, starts, stops], axis=1)[is_long]


def _across_cuts(index: WindowIndex, codes: Codes, pieces: Ints, works: Spans) -> Spans:
    """Return spans after cuts that form a window of held-out text with the text before the cut."""
    left, right = pieces[:-1], pieces[1:]
    is_cut = left[:, 0] == right[:, 0]
    stops, starts = left[is_cut, 2], right[is_cut, 1]  # (c,) end of the text before each cut, start of the text after
    n, width = index.n, 2 * index.n - 2
    around = np.arange(n - 1)
    positions = np.concatenate([stops[:, None] - (n - 1) + around, starts[:, None] + around], axis=1)  # (c, width)
    lines = np.arange(len(stops)) * width
    spans = np.stack([lines, lines + width], axis=1)
    at, cuts, _ = _in_other_works(index, codes[positions.ravel()], spans, works[left[is_cut, 0]])
    return np.stack([starts[cuts], starts[cuts] + at - lines[cuts] + 1], axis=1)  # the part of a window after its cut
