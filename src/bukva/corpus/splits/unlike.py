"""Measure whether val and test are text of another kind than train, such as a licence or notes at the end of a book.

A bigram model that counts train predicts windows of every split. Each part of train is predicted by the counts of the
other parts, so that windows of train have no advantage.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bukva.text.characters import Codes
from bukva.text.splits import Spans

PARTS = 16  # of train; the one that is most unlike the others may be a title page, and does not count
WINDOW = 1000  # characters at most
SHORTEST = 50  # characters of a window; shorter ones vary too much
FEWEST, MOST = 8, 64  # windows of a split; a part of train can have fewer
UNLIKE = 0.25  # bits per character above parts of train (docs/dev/log.md, 2026-11-26: unlike text)

Ints = npt.NDArray[np.int64]


def bigram_bits(codes: Codes, train: Spans, held_out: Mapping[str, Spans]) -> dict[str, float]:
    """Return the bits per character of the median window of each split under a bigram model of train.

    For train it is that of the second highest of its parts. Empty if a split is too short to judge.
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
    """Return (n, size) windows, evenly spaced between these characters of the joined spans."""
    n = min(MOST, (stop - start) // size)
    places = np.linspace(start, stop - size, n).astype(np.int64)[:, None] + np.arange(size)
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    return codes[places + (spans[:, 1] - ends)[np.searchsorted(ends, places, side="right")]]


def _bits(windows: Codes, part_of: Ints) -> npt.NDArray[np.float64]:
    """Return the (n,) bits per character of (n, size) windows, of which parts below PARTS are train.

    A pair of characters that was not counted backs off to the second character alone.
    """
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
        seen = (of_pair[pair[own]] + 2 * alone[second[own]]) / (of_first[first[own]] + 2)
        bits[own] = -np.log2(seen).mean(axis=1)
    return bits


def _counts(ids: Ints, rows: npt.NDArray[np.bool_]) -> Ints:
    return np.bincount(ids[rows].ravel(), minlength=int(ids.max()) + 1)
