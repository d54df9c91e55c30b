"""Measure whether val and test are a different kind of text than the training split, such as the notes of books.

A bigram model of the training split predicts windows of every split. The windows of each part of the training split are
predicted from the counts of all other parts, so that they have no advantage over the windows of val and test.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bukva.text.characters import Codes
from bukva.text.splits import Spans

PARTS = 16  # number of parts of the training split; the part that is most unlike the others is ignored
WINDOW = 1000  # maximum number of characters of a window
SHORTEST = 50  # minimum number of characters of a window; the bits per character of shorter windows vary too much
FEWEST, MOST = 8, 64  # minimum and maximum number of windows of val or test; a part of train can have fewer windows
# A split is reported if it needs this many more bits per character than the parts of train (docs/dev/log.md,
# 2026-11-26: unlike text).
UNLIKE = 0.25

Ints = npt.NDArray[np.int64]


def bigram_bits(codes: Codes, train: Spans, held_out: Mapping[str, Spans]) -> dict[str, float]:
    """Return the bits per character of a typical window of each split, by name of the split.

    The windows are predicted by a bigram model of the training split. The value of val or test is the median of its
    windows. For `train`, each of PARTS parts has a median, and the value is the second highest of these medians. The
    result is empty if any split is too short to judge. The spans are positions in `codes`.
    """
    n_train = _n_chars(train)
    size = min([WINDOW, n_train // PARTS, *(_n_chars(spans) // FEWEST for spans in held_out.values())])
    if size < SHORTEST:
        return {}
    edges = [n_train * part // PARTS for part in range(PARTS + 1)]
    parts = [_windows(codes, train, start, stop, size) for start, stop in pairwise(edges)]
    parts += [_windows(codes, spans, 0, _n_chars(spans), size) for spans in held_out.values()]
    windows = np.concatenate(parts)
    part_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    bits = _bits(windows, part_of)
    medians = [float(np.median(bits[part_of == part])) for part in range(len(parts))]
    return {"train": sorted(medians[:PARTS])[-2], **dict(zip(held_out, medians[PARTS:], strict=True))}


def _n_chars(spans: Spans) -> int:
    return int((spans[:, 1] - spans[:, 0]).sum())


def _windows(codes: Codes, spans: Spans, start: int, stop: int, size: int) -> Codes:
    """Return at most MOST windows of `size` characters, as an array of shape (number of windows, size)."""
    n = min(MOST, (stop - start) // size)
    positions = np.linspace(start, stop - size, n).astype(np.int64)[:, None] + np.arange(size)
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    return codes[positions + (spans[:, 1] - ends)[np.searchsorted(ends, positions, side="right")]]


def _bits(windows: Codes, part_of: Ints) -> npt.NDArray[np.float64]:
    """Return the (n,) bits per character of n windows under a bigram model that is counted on other parts."""
    kinds, chars = np.unique(windows, return_inverse=True)
    chars = chars.reshape(windows.shape)
    first, second = chars[:, :-1], chars[:, 1:]
    pair = np.unique(first * len(kinds) + second, return_inverse=True)[1].reshape(first.shape)
    is_train, bits = part_of < PARTS, np.empty(len(windows))
    for part in range(int(part_of.max()) + 1):
        own = part_of == part
        counted = is_train & ~own
        of_pair, of_first, of_second = (_counts(ids, counted) for ids in (pair, first, second))
        alone = (of_second + 0.5) / (of_second.sum() + 0.5 * (np.count_nonzero(of_second) + 1))
        p = (of_pair[pair[own]] + 2 * alone[second[own]]) / (of_first[first[own]] + 2)
        bits[own] = -np.log2(p).mean(axis=1)
    return bits


def _counts(ids: Ints, rows: npt.NDArray[np.bool_]) -> Ints:
    return np.bincount(ids[rows].ravel(), minlength=int(ids.max()) + 1)
