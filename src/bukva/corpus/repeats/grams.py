"""Text that stands in two places: grams found by their hashes, then read again character by character.

A gram is n characters. The index has the grams that start at every step-th position of one text; the other text is
scanned at every position. A repeat of n + step - 1 characters or more holds an indexed gram, so it is always found,
and the index is smaller than the text. (Manber, "Finding similar files in a large file system", 1994, samples both
sides by hash, which promises nothing; winnowing, Schleimer et al. 2003, gives the same promise with twice as many
entries.)
"""

from collections.abc import Iterator

import numpy as np

from bukva.core.progress import Read, unread
from bukva.corpus.repeats import lookup
from bukva.corpus.repeats.lookup import Bools, Codes, Index, Ints, Spans
from bukva.text.characters import PIECE_CHARS

ENTRIES = 1 << 22  # of an index: 16 bytes each and as much while it is sorted; a longer text has several indices
ANYWHERE = np.iinfo(np.int64).max
CAPACITY = 1 << 18  # equal runs in memory, 24 bytes each
MAX_COPIES = 64  # places of one gram that are compared: a notice in every work costs no more than other text


def index_parts(codes: Codes, spans: Spans, n: int, step: int = 1, min_kinds: int = 1) -> Iterator[Index]:
    """The grams that start at multiples of `step` and end within their span, in indices of at most ENTRIES.

    Grams with fewer than min_kinds different characters are left out: rows of dots, ha ha ha.
    """
    for positions in _position_parts(spans, n, step, ENTRIES):
        if min_kinds > 1:
            positions = positions[lookup.are_varied(codes, positions, n, min_kinds)]
        hashes = lookup.hashes_of(codes, positions, n)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        bits = max(len(hashes).bit_length() - 1, 1)
        shift = np.uint64(64 - bits)
        starts = np.arange(1, 1 << bits, dtype=np.uint64) << shift
        firsts = np.concatenate([[0], np.searchsorted(hashes, starts), [len(hashes)]]).astype(np.int32)
        yield Index(hashes, positions[order], firsts, lookup.filters_of(hashes, shift), shift, n, step, min_kinds)


def n_parts(spans: Spans, n: int, step: int = 1) -> int:
    """In how many indices index_parts puts the grams."""
    first, last = -(-spans[:, 0] // step), (spans[:, 1] - n) // step
    return -(-int(np.maximum(last - first + 1, 0).sum()) // ENTRIES)


def scan_grams(
    codes: Codes,
    index: Index,
    text: Codes,
    spans: Spans,
    found: Bools,
    own: Spans | None = None,
    read: Read = unread,
) -> Iterator[Spans]:
    """Look up all grams of the (m, 2) spans of a text in an index of `codes`, which may be the same array.

    (M,) `found` marks the entries met; of entries with equal hashes one (`spread` marks the others). Entries within the
    (m, 2) spans `own` of codes are not looked at from the text's span of the same row. Yields (k, 2) starts and stops
    of what the grams met cover, ascending, a piece of the text at a time; pieces overlap.
    """
    own = np.zeros_like(spans) if own is None else own
    for (start, stop), (first_own, after_own) in zip(spans.tolist(), own.tolist(), strict=True):
        for at in range(start, stop - index.n + 1, PIECE_CHARS):
            met = np.zeros(min(PIECE_CHARS, stop - index.n + 1 - at) + 2, np.bool_)  # and one position on both sides
            lookup.mark_grams(codes, index, text, at, found, met[1:-1], first_own, after_own)
            read(len(met) - 2)
            first, after = np.flatnonzero(met[1:] != met[:-1]).reshape(-1, 2).T  # of each run of positions
            if len(first):
                yield np.stack([at + first, at + after - 1 + index.n], axis=1)


def spread(index: Index, found: Bools) -> Bools:
    """(M,) found entries -> (M,) those with equal hashes included. Different grams with one hash count as equal: in an
    index of ENTRIES, any two have one with a probability of 5e-7."""
    is_first = np.ones(len(found), np.bool_)
    np.not_equal(index.hashes[1:], index.hashes[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    return np.repeat(found[firsts], np.diff(firsts, append=len(found)))


def equal_runs(
    codes: Codes, index: Index, spans: Spans, text: Codes, start: int, stop: int, before: int = ANYWHERE
) -> Iterator[Ints]:
    """Maximal equal runs of `spans` of codes, whose grams are indexed, and of a text from start to stop.

    Yields (m, 3) arrays, m <= CAPACITY: where the run starts in codes, where in the text, how long it is. Indexed grams
    from position `before` on are ignored; a gram is compared with its first MAX_COPIES places only.
    """
    rows = np.empty((CAPACITY, 3), np.int64)
    starts, stops = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
    at = start
    while at <= stop - index.n:
        n_rows, at = lookup.fill_runs(codes, index, starts, stops, text, start, stop, at, before, MAX_COPIES, rows)
        if n_rows:
            yield rows[:n_rows].copy()


def _position_parts(spans: Spans, n: int, step: int, entries: int) -> Iterator[Ints]:
    """Ascending positions of grams, at most `entries` at a time."""
    part: list[Ints] = []
    room = entries
    for start, stop in spans.tolist():
        at = -(-start // step) * step
        while at <= stop - n:
            positions = np.arange(at, min(stop - n + 1, at + room * step), step)
            part.append(positions)
            room -= len(positions)
            at += len(positions) * step
            if room == 0:
                yield np.concatenate(part)
                part, room = [], entries
    if part:
        yield np.concatenate(part)
