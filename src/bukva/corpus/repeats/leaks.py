"""What of val and test also stands in train, exactly or nearly, and how train is cut so that it does not.

Equal runs of SEED characters or more are found first (grams.py). Runs that follow each other in both works with small
gaps are one passage (grams.chain): what stands in a gap was changed.

The spans of `codes` are looked up at any place, those of `text` are read from start to end. Both may be one array; of a
text that the memory does not hold they are two mappings of one file (splits/division.py).
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bukva.corpus.repeats.grams import ENTRIES, Ints, Spans, chain, equal_runs, index_parts, scan_grams, spread
from bukva.text.characters import Codes

SEED = 16  # characters that a changed passage must still have in a row now and then
STEP = 16  # so a run of SEED + STEP - 1 characters is always found, a shorter one sometimes
KINDS = 8  # different characters of a seed at least: rows of dots stand in many works and are no text
VARIETY = 2 / 3  # of the different characters of the median seed are enough, so that copies of DNA are found
SAMPLE = 4096  # seeds that give the median
MAX_GAP = 120  # characters between two runs of one passage
MIN_EQUAL = 0.4  # of a passage's characters: a form of address that keeps returning is no passage
LOOK_BACK = 64  # runs that may be the one before in a passage
MOST_WINDOWS = ENTRIES  # one index; 0.02 points is the standard error of a share of 25 % of them


# ---- passages that stand in both


def passages(codes: Codes, spans_a: Spans, text: Codes, spans_b: Spans, min_chars: int) -> Ints:
    """Passages of spans_a of codes that stand in spans_b of a text, with at least min_chars >= SEED + STEP - 1 equal
    characters.

    Returns (m, 7): the row of spans_a, start and stop in codes; the row of spans_b, start and stop in the text; how
    many characters are equal. A passage that crosses the border of two indices or of CAPACITY runs becomes two.
    """
    filled = np.flatnonzero(spans_a[:, 1] > spans_a[:, 0])  # of spans with one start, the one that has text
    spans = spans_a[filled].astype(np.int64)
    found = [np.empty((0, 7), np.int64)]
    for index in index_parts(codes, spans, SEED, STEP, seed_kinds(codes, spans)):
        for work, (start, stop) in enumerate(spans_b.tolist()):
            for runs in equal_runs(codes, index, spans, text, start, stop):  # (m, 3)
                owners = filled[np.searchsorted(spans[:, 0], runs[:, 0], side="right") - 1]
                order = np.lexsort((runs[:, 1], owners))
                chains = chain(runs[order], owners[order], MAX_GAP, LOOK_BACK)  # (c, 6)
                longer = np.maximum(chains[:, 2] - chains[:, 1], chains[:, 4] - chains[:, 3])
                chains = chains[chains[:, 5] >= np.maximum(min_chars, MIN_EQUAL * longer)]
                found.append(np.insert(chains, 3, work, axis=1))
    return np.concatenate(found)


def seed_kinds(codes: Codes, spans: Spans) -> int:
    """Return how many different characters a seed needs: KINDS, or fewer in a text of few characters."""
    stops = spans[:, 1] - SEED + 1
    lengths = np.maximum(stops - spans[:, 0], 0)  # numbers of seeds
    ends = np.cumsum(lengths)
    if not len(ends) or not ends[-1]:
        return KINDS
    places = np.linspace(0, ends[-1] - 1, min(SAMPLE, int(ends[-1]))).astype(np.int64)
    firsts = places + (stops - ends)[np.searchsorted(ends, places, side="right")]
    seeds = np.sort(codes[firsts[:, None] + np.arange(SEED)], axis=1)
    kinds = 1 + (np.diff(seeds, axis=1) != 0).sum(axis=1)
    return min(KINDS, math.ceil(VARIETY * float(np.median(kinds))))


# ---- what of val and test stands in train


def seen_in_train(codes: Codes, held_out: list[Spans], text: Codes, train: Spans, n: int) -> list[float | None]:
    """The share of the windows of n characters in the spans of each held-out text that also stand within a span of
    train; None without windows.

    Every position is a window. If the held-out texts have more than MOST_WINDOWS together, so many of them are looked
    up, evenly spaced: train is read once for each n, however much is held out.
    """
    spans, texts = _joined(held_out)
    step = max(1, -(-int((spans[:, 1] - spans[:, 0]).sum()) // MOST_WINDOWS))
    windows, in_train = np.zeros((2, len(held_out)), np.int64)
    for index in index_parts(codes, spans, n, step):
        text_of = texts[np.searchsorted(spans[:, 0], index.positions, side="right") - 1]  # (M,)
        windows += np.bincount(text_of, minlength=len(held_out))
        found = np.zeros(len(index.hashes), np.bool_)
        for _ in scan_grams(codes, index, text, train, found):
            pass
        in_train += np.bincount(text_of[spread(index, found)], minlength=len(held_out))
    return [found / n if n else None for n, found in zip(windows.tolist(), in_train.tolist(), strict=True)]


def _joined(texts: list[Spans]) -> tuple[Spans, npt.NDArray[np.int8]]:
    """The spans of several texts, ascending, without empty ones, and which text each is of."""
    spans, numbers = np.concatenate(texts), np.repeat(np.arange(len(texts), dtype=np.int8), list(map(len, texts)))
    filled = np.flatnonzero(spans[:, 1] > spans[:, 0])
    order = filled[np.argsort(spans[filled, 0], kind="stable")]
    return spans[order], numbers[order]


# ---- how it is cut out


def cut_from(codes: Codes, held_out: Spans, text: Codes, train: Spans, works: Spans, min_chars: int) -> Ints:
    """What remains of train: (m, 3) rows of work (a row of train and of works), start and stop in the joined corpus.

    Passages of train that stand in held-out text of another work, exactly or nearly, are cut out. Afterwards no
    min_chars characters of that text stand in the remaining text of a work, not even across a cut. What a work repeats
    of itself stays: its refrains belong to it. Between two cuts, or a cut and the end of the share, pieces shorter than
    min_chars go too. A share in which nothing is cut stays as it is.
    """
    near = passages(codes, held_out, text, train, min_chars)
    a, b = (np.searchsorted(works[:, 1], near[:, start], side="right") for start in (1, 4))
    cuts = _union([near[a != b, 4:6], *_equal_windows(codes, held_out, text, train, works, min_chars)])
    while True:
        pieces = _remaining(train, cuts, min_chars)
        across = _across_cuts(codes, pieces, held_out, works, min_chars)
        if not len(across):
            return pieces
        cuts = _union([cuts, across])


def _equal_windows(codes: Codes, held_out: Spans, text: Codes, spans: Spans, own: Spans, n: int) -> Iterator[Spans]:
    """What windows of n characters cover in the (m, 2) spans of a text that stand in held_out, but not in the row's own
    work: of any text, and any number of times."""
    for index in index_parts(codes, held_out, n):
        yield from scan_grams(codes, index, text, spans, np.zeros(len(index.hashes), np.bool_), own)


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
