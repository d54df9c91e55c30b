"""Measure how much held-out text also occurs in the training split, and cut repeats out of the training split.

A near repeat is a passage that occurs in two works with small changes. To find it, `equal_runs` in grams.py first finds
sequences of at least SEED characters that are equal in both works. These sequences are called runs. Then `chain` in
grams.py joins runs that follow each other in both works with small gaps. The characters in the gaps are the changes.

Texts are arrays of character codes, and a span is a start and a stop in such an array. Each function reads its
parameter `codes` at random positions, and its parameter `text` from start to end. The two may be the same array. For a
corpus that does not fit in memory, they are two memory maps of one file (`mapped_codes` in splits/division.py).
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bukva.corpus.repeats.grams import (
    ENTRIES,
    Ints,
    Spans,
    chain,
    equal_runs,
    index_parts,
    scan_grams,
    with_equal_hashes,
)
from bukva.text.characters import Codes

# A seed is a sequence of SEED characters in the index, from which the search for a repeat starts.
SEED = 16  # a changed passage must still contain unchanged runs of this length
STEP = 16  # distance between seeds: runs of SEED + STEP - 1 characters are always found, shorter runs sometimes
KINDS = 8  # minimum number of different characters in a seed, because rows of dots occur in many works
# Text with a small alphabet, such as DNA, may have fewer than KINDS. A seed then needs this fraction of the median
# number of different characters in a seed.
VARIETY = 2 / 3
SAMPLE = 4096  # number of seeds from which the median is computed
MAX_GAP = 120  # maximum number of characters between two runs of one passage
# Minimum fraction of equal characters in a passage. Without this limit, a form of address that recurs between different
# sentences would be a passage.
MIN_EQUAL = 0.4
LOOK_BACK = 64  # a run can be joined to one of this many runs before it
# Maximum number of windows that are looked up, which is what fits in one index. If 25 % of them occur in the training
# split, the standard error of this percentage is 0.02 percentage points.
MOST_WINDOWS = ENTRIES


# ---- passages that occur in two texts


def passages(codes: Codes, spans_a: Spans, text: Codes, spans_b: Spans, min_chars: int) -> Ints:
    """Find passages that occur both in `spans_a` of `codes` and in `spans_b` of `text`, exactly or with small changes.

    Args:
        codes: the text to index.
        spans_a: (n, 2) spans of `codes`. A span is a start and a stop.
        text: the text to scan; may be the same array as `codes`.
        spans_b: (k, 2) spans of `text`.
        min_chars: minimum number of equal characters in a passage. It must be at least SEED + STEP - 1.

    Returns:
        (m, 7) array with one passage in each row. The columns are: row number in `spans_a`, start and stop in `codes`,
        row number in `spans_b`, start and stop in `text`, and number of equal characters. A passage can be split into
        two rows, because the indices of `index_parts` and the arrays of `equal_runs` are used one by one.
    """
    filled = np.flatnonzero(spans_a[:, 1] > spans_a[:, 0])  # an empty span may have the same start as another span
    spans = spans_a[filled].astype(np.int64)
    rows = [np.empty((0, 7), np.int64)]
    for index in index_parts(codes, spans, SEED, STEP, seed_kinds(codes, spans)):
        for work, (start, stop) in enumerate(spans_b.tolist()):
            for runs in equal_runs(codes, index, spans, text, start, stop):  # (m, 3)
                owners = filled[np.searchsorted(spans[:, 0], runs[:, 0], side="right") - 1]
                order = np.lexsort((runs[:, 1], owners))
                chains = chain(runs[order], owners[order], MAX_GAP, LOOK_BACK)  # (c, 6)
                longer = np.maximum(chains[:, 2] - chains[:, 1], chains[:, 4] - chains[:, 3])
                chains = chains[chains[:, 5] >= np.maximum(min_chars, MIN_EQUAL * longer)]
                rows.append(np.insert(chains, 3, work, axis=1))
    return np.concatenate(rows)


def seed_kinds(codes: Codes, spans: Spans) -> int:
    """Return the minimum number of different characters in a seed, a sequence of SEED characters in the index.

    The minimum is KINDS, or less for a text with a small alphabet, such as DNA.
    """
    stops = spans[:, 1] - SEED + 1
    n_seeds = np.maximum(stops - spans[:, 0], 0)  # number of seeds in each span
    ends = np.cumsum(n_seeds)
    if not len(ends) or not ends[-1]:
        return KINDS
    # numbers of seeds, counted over all spans
    sampled = np.linspace(0, ends[-1] - 1, min(SAMPLE, int(ends[-1]))).astype(np.int64)
    firsts = sampled + (stops - ends)[np.searchsorted(ends, sampled, side="right")]
    seeds = np.sort(codes[firsts[:, None] + np.arange(SEED)], axis=1)
    kinds = 1 + (np.diff(seeds, axis=1) != 0).sum(axis=1)
    return min(KINDS, math.ceil(VARIETY * float(np.median(kinds))))


# ---- the fraction of val and test that occurs in the training split


def seen_in_train(codes: Codes, held_out: list[Spans], text: Codes, train: Spans, n: int) -> list[float | None]:
    """Return the fraction of the windows of each held-out text that also occur in the training split.

    A window is a sequence of n consecutive characters within one span, and windows overlap. If the held-out texts
    together have more than MOST_WINDOWS windows, only about MOST_WINDOWS evenly spaced windows are looked up. These
    fit in one index, so the training split is read only once.

    Args:
        codes: the corpus, for random access.
        held_out: the spans of each held-out text in `codes`.
        text: the corpus, for reading from start to end.
        train: spans of the training split in `text`.
        n: number of characters in a window.

    Returns:
        One fraction for each held-out text, or None for a text without windows.
    """
    spans, texts = _joined(held_out)
    step = max(1, -(-int((spans[:, 1] - spans[:, 0]).sum()) // MOST_WINDOWS))
    windows, in_train = np.zeros((2, len(held_out)), np.int64)
    for index in index_parts(codes, spans, n, step):
        text_of = texts[np.searchsorted(spans[:, 0], index.positions, side="right") - 1]  # (M,)
        windows += np.bincount(text_of, minlength=len(held_out))
        matched_entries = np.zeros(len(index.hashes), np.bool_)
        for _ in scan_grams(codes, index, text, train, matched_entries):
            pass
        in_train += np.bincount(text_of[with_equal_hashes(index, matched_entries)], minlength=len(held_out))
    return [seen / total if total else None for total, seen in zip(windows.tolist(), in_train.tolist(), strict=True)]


def _joined(texts: list[Spans]) -> tuple[Spans, npt.NDArray[np.int8]]:
    """Return all non-empty spans in ascending order, and for each span the number of the text that contains it."""
    spans, numbers = np.concatenate(texts), np.repeat(np.arange(len(texts), dtype=np.int8), list(map(len, texts)))
    filled = np.flatnonzero(spans[:, 1] > spans[:, 0])
    order = filled[np.argsort(spans[filled, 0], kind="stable")]
    return spans[order], numbers[order]


# ---- cut repeats out of the training split


def cut_from(codes: Codes, held_out: Spans, text: Codes, train: Spans, works: Spans, min_chars: int) -> Ints:
    """Return the training split without the passages that also occur in held-out text of another work.

    Both exact and near repeats are cut out. Afterwards, the training text of a work and the held-out text of another
    work have no sequence of `min_chars` characters in common. This includes sequences across a cut. A passage that
    occurs only in held-out text of the same work is kept, because refrains belong to a work. If anything is cut out of
    a work, the pieces of this work that are shorter than `min_chars` are also removed.

    Args:
        codes: the corpus, for random access.
        held_out: (h, 2) spans of val and test, ascending.
        text: the corpus, for reading from start to end.
        train: (n_works, 2) spans of the training split, one for each work.
        works: (n_works, 2) spans of the works.
        min_chars: minimum length of a repeat that is cut out, in characters.

    Returns:
        (m, 3) array with a remaining piece of the training split in each row. The columns are: number of the work,
        start and stop.
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
    """Yield (k, 2) spans of `text` in which every n consecutive characters also occur in `held_out`."""
    for index in index_parts(codes, held_out, n):
        yield from scan_grams(codes, index, text, spans, np.zeros(len(index.hashes), np.bool_), own)


def _across_cuts(codes: Codes, pieces: Ints, held_out: Spans, works: Spans, n: int) -> Spans:
    """Return (m, 2) spans that must also be cut out, because earlier cuts created new repeats."""
    left, right = pieces[:-1], pieces[1:]
    is_cut = left[:, 0] == right[:, 0]
    # (c,) end of the text before each cut, and start of the text after each cut
    stops, starts = left[is_cut, 2], right[is_cut, 1]
    if not len(stops):
        return np.empty((0, 2), np.int64)
    around = np.arange(n - 1)
    positions = np.concatenate([stops[:, None] - (n - 1) + around, starts[:, None] + around], axis=1)  # (c, 2n - 2)
    lines = np.arange(len(stops) + 1) * (2 * n - 2)
    spans = np.stack([lines[:-1], lines[1:]], axis=1)
    own = works[left[is_cut, 0]]
    covered = [np.empty((0, 2), np.int64), *_equal_windows(codes, held_out, codes[positions.ravel()], spans, own, n)]
    cut, at = np.divmod(np.concatenate(covered)[:, 1] - n, 2 * n - 2)  # start of the last window of each covered part
    return np.stack([starts[cut], starts[cut] + at + 1], axis=1)  # this window has at + 1 characters after the cut


def _union(spans: list[Spans]) -> Spans:
    """Merge overlapping spans. Adjacent spans are not merged, because they may belong to two works."""
    all_spans = np.concatenate(spans)
    starts, stops = all_spans[np.argsort(all_spans[:, 0], kind="stable")].T
    stops = np.maximum.accumulate(stops)
    is_first, is_last = np.ones((2, len(starts)), np.bool_)
    is_first[1:] = is_last[:-1] = starts[1:] >= stops[:-1]
    return np.stack([starts[is_first], stops[is_last]], axis=1)


def _remaining(train: Spans, cuts: Spans, min_chars: int) -> Ints:
    """Return the pieces of the training split that remain after the spans `cuts` are cut out."""
    pieces: list[tuple[int, int, int]] = []
    first = np.searchsorted(cuts[:, 0], train[:, 0])
    last = np.searchsorted(cuts[:, 0], train[:, 1])
    for work, (start, stop) in enumerate(train.tolist()):
        of_work = cuts[first[work] : last[work]]
        starts, stops = [start, *of_work[:, 1].tolist()], [*of_work[:, 0].tolist(), stop]
        is_whole = len(starts) == 1 and stop > start
        pieces += [(work, a, b) for a, b in zip(starts, stops, strict=True) if is_whole or b - a >= min_chars]
    return np.array(pieces, np.int64).reshape(-1, 3)
