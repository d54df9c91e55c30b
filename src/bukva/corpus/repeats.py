"""Find text that occurs in two places, by the hashes of all its windows (sequences of n consecutive characters).

Windows with equal 64-bit hashes count as equal. If two texts of 10^7 characters each have no window in common, a window
is found by mistake with a probability of 5e-6.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import numpy.typing as npt

from bukva.core.machine import n_cores
from bukva.text.characters import Codes
from bukva.text.ids import Spans

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
PIECE = 1 << 16  # number of windows that are hashed and looked up at once, so that their hashes fit a core's cache
MAX_FILTER_BITS = 28  # so the filter of a WindowSet has at most 2^28 bytes
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
FIRST_PART = 1 << 20  # number of characters of train after which the windows that occur in them are looked up no more
MAX_COPIES = 64  # `equal_runs` finds only so many of the windows that are equal to one of the other text


class WindowSet:
    """Set of windows of n characters, to find them in texts. `hashes` are their (M,) different hashes, ascending."""

    def __init__(self, hashes: Hashes, n: int) -> None:
        self.hashes, self.n = hashes, n
        # a Bloom filter, which rules out most other windows without a search
        self._n_bits = min(len(hashes).bit_length() + 3, MAX_FILTER_BITS)
        self._filter = np.zeros(1 << self._n_bits, np.bool_)
        for start in range(0, len(hashes), PIECE):
            for k in range(2):
                self._filter[self._places(hashes[start : start + PIECE], k)] = True

    def _places(self, hashes: Hashes, k: int) -> Ints:
        """Return the places of hashes in the filter: their highest bits or, if k is 1, the bits after them."""
        return (hashes << np.uint64(k * self._n_bits) >> np.uint64(64 - self._n_bits)).view(np.int64)

    def find(self, text: Codes, is_window: Bools) -> Iterator[tuple[Ints, Ints]]:
        """Yield (k,) positions in a text and indices in `hashes` of the windows that are in this set.

        Only the windows that begin where `is_window` is true are looked up.
        """

        def found_in(start: int) -> tuple[Ints, Ints]:
            hashes = _hashes(text[start : start + PIECE + self.n - 1], self.n)
            may_occur = self._filter.take(self._places(hashes, 0), mode="clip")  # faster than with a check of bounds
            at = np.flatnonzero(may_occur & is_window[start : start + len(hashes)])
            at = at[self._filter[self._places(hashes[at], 1)]]
            at = at[np.argsort(hashes[at])]  # numpy looks up ascending hashes several times faster
            numbers = np.searchsorted(self.hashes[:-1], hashes[at])  # of an equal hash, or of another one
            is_equal = self.hashes[numbers] == hashes[at]
            return start + at[is_equal], numbers[is_equal]

        with ThreadPoolExecutor(n_cores()) as threads:  # numpy computes without the GIL
            yield from threads.map(found_in, range(0, len(text) - self.n + 1, PIECE))


def _hashes(codes: Codes, n: int) -> Hashes:
    """Return the hashes of all windows of n characters of a text of at most PIECE + n - 1 characters."""
    # A hash is the polynomial of the window's code points in BASE, modulo 2^64. It is the difference of two prefix
    # sums, divided by a power of BASE.
    powers, inverses = _powers(BASE, PIECE + n), _powers(pow(BASE, -1, 1 << 64), PIECE + n)
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(codes * powers[: len(codes)], out=sums[1:])
    return (sums[n:] - sums[:-n]) * inverses[: len(codes) - n + 1]


@cache
def _powers(base: int, n: int) -> Hashes:
    return np.cumprod(np.full(n, base, np.uint64), dtype=np.uint64)


def _hashes_at(codes: Codes, positions: Ints, n: int) -> Hashes:
    """Return the hashes of the windows of n characters that begin at ascending positions."""
    hashes = np.empty(len(positions), np.uint64)
    for start in range(0, len(codes) - n + 1, PIECE):
        first, after = np.searchsorted(positions, [start, start + PIECE])
        if first < after:
            piece = _hashes(codes[start : start + PIECE + n - 1], n)
            hashes[first:after] = piece[positions[first:after] - start]
    return hashes


def _is_window(n_codes: int, spans: Spans, n: int) -> Bools:
    """Return at which positions of a text windows of n characters begin that lie within one of the spans."""
    marks = np.zeros(n_codes, np.bool_)
    for start, stop in spans.tolist():
        marks[start : max(start, stop - n + 1)] = True
    return marks


def _joined(codes: Codes, spans: Spans) -> tuple[Codes, Spans]:
    """Return the text in some spans, joined, and the spans in the joined text."""
    stops = np.cumsum(spans[:, 1] - spans[:, 0])
    text = np.concatenate([codes[:0], *(codes[start:stop] for start, stop in spans.tolist())])
    return text, np.stack([stops - spans[:, 1] + spans[:, 0], stops], axis=1)


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return start, start + 1, ... for each start, joined."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(starts - ends + lengths, lengths)


# ---- the fraction of a text that occurs in train, and the passages that do


def seen_in_train(
    codes: Codes, held_out: Sequence[Spans], text: Codes, train: Spans, lengths: Sequence[int]
) -> dict[int, list[float | None]]:
    """Return the fraction of the windows of each held-out text that also occur in train, or None without windows.

    The fractions are by length of the windows, of which `lengths` has several, ascending. The held-out texts are (k, 2)
    ascending spans of `codes`, and train is (m, 2) ascending spans of `text`. Of very many windows, only about
    MOST_WINDOWS evenly spaced ones are looked up.
    """
    spans, owners = (
        np.concatenate(held_out),
        np.repeat(np.arange(len(held_out), dtype=np.uint16), [*map(len, held_out)]),
    )
    in_order = np.argsort(spans[:, 0], kind="stable")
    codes, spans = _joined(codes, spans[in_order])
    owners = np.repeat(owners[in_order], spans[:, 1] - spans[:, 0])  # number of the text that contains each character
    may_occur, result = np.ones(len(codes), np.bool_), {}
    for n in lengths:
        positions = np.flatnonzero(_is_window(len(codes), spans, n))
        positions = positions[:: max(1, -(-len(positions) // MOST_WINDOWS))]
        totals = np.bincount(owners[positions], minlength=len(held_out))
        positions = positions[may_occur[positions]]
        hashes, numbers = np.unique(_hashes_at(codes, positions, n), return_inverse=True)
        is_seen = _occur_in(text, train, hashes, n)[numbers]
        may_occur[positions[~is_seen]] = False  # nor does a longer window that begins there
        seen = np.bincount(owners[positions[is_seen]], minlength=len(held_out))
        result[n] = [
            part / total if total else None for part, total in zip(seen.tolist(), totals.tolist(), strict=True)
        ]
    return result


def _occur_in(text: Codes, spans: Spans, hashes: Hashes, n: int) -> Bools:
    """Return whether each window with one of the (M,) hashes, ascending, occurs within a span of a text."""
    occurs, is_window = np.zeros(len(hashes), np.bool_), _is_window(len(text), spans, n)
    start, stop = 0, FIRST_PART
    while start < len(text):  # frequent windows occur early, and all later lookups are faster without them
        missing = np.flatnonzero(~occurs)
        for _, numbers in WindowSet(hashes[missing], n).find(text[start : stop + n - 1], is_window[start:stop]):
            occurs[missing[numbers]] = True
        start, stop = stop, 2 * stop
    return occurs


def equal_runs(codes: Codes, spans: Spans, text: Codes, text_spans: Spans, n: int) -> Ints:
    """Return (m, 3) runs of at least n characters that occur in both texts: starts in both, and length."""
    positions = np.flatnonzero(_is_window(len(codes), spans, n))
    hashes, numbers = np.unique(_hashes_at(codes, positions, n), return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers[order], np.arange(len(hashes) + 1))
    copies = np.minimum(np.diff(edges), MAX_COPIES)  # (M,)
    pairs = [np.empty((2, 0), np.int64)]
    for at, found in WindowSet(hashes, n).find(text, _is_window(len(text), text_spans, n)):
        of_window = order[_ranges(edges[found], copies[found])]
        pairs.append(np.stack([positions[of_window], np.repeat(at, copies[found])]))
    starts, starts_in_text = np.concatenate(pairs, axis=1)
    diagonals = starts_in_text - starts  # constant within a run
    order = np.lexsort((starts, diagonals))
    starts, diagonals = starts[order], diagonals[order]
    continues = (np.diff(diagonals) == 0) & (np.diff(starts) == 1)
    firsts = _firsts(continues, len(order))
    run_lengths = np.diff(firsts, append=len(order)) + n - 1
    return np.stack([starts[firsts], starts[firsts] + diagonals[firsts], run_lengths], axis=1)


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
    copies = _changed_copies(codes, held_out, train, works, min_chars)
    windows = HeldOutWindows(codes, held_out, min_chars)
    equal, _, _ = windows.in_other_works(codes, train, works)
    is_kept = _is_window(len(codes), train, 1)
    _clear(is_kept, np.concatenate([copies, np.stack([equal, equal + min_chars], axis=1)]))
    while True:
        pieces = _pieces(is_kept, train, min_chars)
        across = _across_cuts(windows, codes, pieces, works)
        if not len(across):
            return pieces
        _clear(is_kept, across)


class HeldOutWindows:
    """The windows of n characters of held-out text, to find them in train text of other works."""

    def __init__(self, codes: Codes, held_out: Spans, n: int, only_varied: bool = False) -> None:
        self.n, self._held_out = n, held_out
        text, self._spans = _joined(codes, held_out)
        positions = np.flatnonzero(_is_window(len(text), self._spans, n))
        if only_varied:
            positions = positions[_are_varied(text, positions)]
        hashes = _hashes_at(text, positions, n)
        order, positions = np.argsort(hashes), positions.astype(np.min_scalar_type(len(text)))
        hashes, positions = hashes[order], positions[order]
        del order  # as large as the hashes
        firsts = _firsts(hashes[1:] == hashes[:-1], len(hashes))
        # (2, M), where each different window occurs first and last in the joined text
        self._ends = np.stack([end.reduceat(positions, firsts) for end in (np.minimum, np.maximum)])
        self._windows = WindowSet(hashes[firsts], n)

    def in_other_works(self, text: Codes, spans: Spans, works: Spans) -> Ints:
        """Return (3, k) positions in `spans` of a text, rows of `spans`, and positions in held-out text of other works.

        Row i of `works` is the work with row i of `spans`.
        """
        found = [np.empty((3, 0), np.int64)]
        for at, numbers in self._windows.find(text, _is_window(len(text), spans, self.n)):
            rows = np.searchsorted(spans[:, 0], at, side="right") - 1
            (first, last), (start, stop) = map(self._in_codes, self._ends[:, numbers]), works[rows].T
            other = np.where((start <= first) & (first < stop), last, first)
            found.append(np.stack([at, rows, other])[:, (other < start) | (stop <= other)])
        return np.concatenate(found, axis=1)

    def _in_codes(self, positions: npt.NDArray[np.unsignedinteger]) -> Ints:
        """Convert positions in the joined text to positions in the corpus."""
        rows = np.searchsorted(self._spans[:, 0], positions, side="right") - 1
        return positions - self._spans[rows, 0] + self._held_out[rows, 0]


def _changed_copies(codes: Codes, held_out: Spans, train: Spans, works: Spans, min_chars: int) -> Spans:
    """Return the passages of train that are copies, possibly changed, of held-out text of another work."""
    windows = HeldOutWindows(codes, held_out, SEED, only_varied=True)
    at, rows, others = windows.in_other_works(codes, train, works)
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
    next_equal = np.full(len(codes), SEED, np.uint8)  # distance to the next equal character, at most SEED
    for distance in range(SEED - 1, 0, -1):
        np.copyto(next_equal[:-distance], distance, where=codes[distance:] == codes[:-distance])
    kinds = np.zeros(max(0, len(codes) - SEED + 1), np.uint8)
    for place in range(SEED):  # count the last one of all equal characters in a window
        kinds += next_equal[place : place + len(kinds)] >= SEED - place
    kinds = kinds[positions]
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


def _across_cuts(windows: HeldOutWindows, codes: Codes, pieces: Ints, works: Spans) -> Spans:
    """Return spans after cuts that form a window of held-out text with the text before the cut."""
    left, right = pieces[:-1], pieces[1:]
    is_cut = left[:, 0] == right[:, 0]
    stops, starts = left[is_cut, 2], right[is_cut, 1]  # (c,) end of the text before each cut, start of the text after
    n, width = windows.n, 2 * windows.n - 2
    around = np.arange(n - 1)
    positions = np.concatenate([stops[:, None] - (n - 1) + around, starts[:, None] + around], axis=1)  # (c, width)
    lines = np.arange(len(stops)) * width
    spans = np.stack([lines, lines + width], axis=1)
    at, cuts, _ = windows.in_other_works(codes[positions.ravel()], spans, works[left[is_cut, 0]])
    return np.stack([starts[cuts], starts[cuts] + at - lines[cuts] + 1], axis=1)  # the part of a window after its cut
