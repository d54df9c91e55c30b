"""Text that stands in two places: grams found by their hashes, then read again character by character.

A gram is n characters. The index has the grams that start at every step-th position of one text; the other text is
scanned at every position. A repeat of n + step - 1 characters or more holds an indexed gram, so it is always found,
and the index is smaller than the text. (Manber, "Finding similar files in a large file system", 1994, samples both
sides by hash, which promises nothing; winnowing, Schleimer et al. 2003, gives the same promise with twice as many
entries.) Hashes are polynomials modulo 2^64. Equal hashes only say where to look: every match has been read.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled
from bukva.text.characters import PIECE_CHARS, Codes

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Spans = Ints  # (n_spans, 2) starts and stops in the joined corpus, ascending, not overlapping

ENTRIES = 1 << 22  # of an index, about: 16 bytes each and as much while it is sorted; a longer text has several indices
CAPACITY = 1 << 18  # equal runs in memory, 24 bytes each
MAX_COPIES = 64  # places of one gram that are compared: a notice in every work costs no more than other text
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
MIX = np.uint64(0xBF58476D1CE4E5B9)
HALF = np.uint64(32)


class Index(NamedTuple):
    """M grams, sorted by hash, equal ones by position.

    hashes: (M,).
    positions: (M,) where each gram starts.
    firsts: (2^bits + 1,) the first entry whose hash starts with these bits or higher ones.
    filters: (2^bits,) 64 flags for each start: which next six bits there are. It answers most look-ups that find
        nothing, without a second miss of the processor's cache.
    shift: 64 - bits.
    """

    hashes: Hashes
    positions: Ints
    firsts: npt.NDArray[np.int32]
    filters: Hashes
    shift: np.uint64
    n: int
    step: int
    min_kinds: int


def index_parts(codes: Codes, spans: Spans, n: int, step: int = 1, min_kinds: int = 1) -> Iterator[Index]:
    """The grams that start at multiples of `step` and end within their span, in indices of about ENTRIES.

    Grams with fewer than min_kinds different characters are left out: rows of dots, ha ha ha.
    """
    for positions in _positions(spans, n, step):
        if min_kinds > 1:
            positions = positions[_are_varied(codes, positions, n, min_kinds)]
        hashes = _hashes_of(codes, positions, n)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        bits = max(len(hashes).bit_length() - 1, 1)
        shift = np.uint64(64 - bits)
        starts = np.arange(1, 1 << bits, dtype=np.uint64) << shift
        firsts = np.concatenate([[0], np.searchsorted(hashes, starts), [len(hashes)]]).astype(np.int32)
        yield Index(hashes, positions[order], firsts, _filters_of(hashes, shift), shift, n, step, min_kinds)


def _positions(spans: Spans, n: int, step: int) -> Iterator[Ints]:
    """Ascending positions of grams, some ENTRIES at a time."""
    part: list[Ints] = []
    size = 0
    for start, stop in spans.tolist():
        for first in range(-(-start // step) * step, stop - n + 1, step * ENTRIES):
            part.append(np.arange(first, min(first + step * ENTRIES, stop - n + 1), step))
            size += len(part[-1])
            if size >= ENTRIES:
                yield np.concatenate(part)
                part, size = [], 0
    if part:
        yield np.concatenate(part)


def scan_grams(
    codes: Codes, index: Index, text: Codes, spans: Spans, found: Bools, own: Spans | None = None
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
            _mark_grams(codes, index, text, at, found, met[1:-1], first_own, after_own)
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


def equal_runs(codes: Codes, index: Index, spans: Spans, text: Codes, start: int, stop: int) -> Iterator[Ints]:
    """Maximal equal runs of `spans` of codes, whose grams are indexed, and of a text from start to stop.

    Yields (m, 3) arrays, m <= CAPACITY: where the run starts in codes, where in the text, how long it is. A gram is
    compared with its first MAX_COPIES places only.
    """
    rows = np.empty((CAPACITY, 3), np.int64)
    starts, stops = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
    at = start
    while at <= stop - index.n:
        n_rows, at = _fill_runs(codes, index, starts, stops, text, start, stop, at, rows)
        if n_rows:
            yield rows[:n_rows].copy()


# ---- the loops, compiled; in one module, because their machine code is kept by its content


@compiled
def _hashes_of(codes: Codes, positions: Ints, n: int) -> Hashes:
    """(M,) hashes of the grams of n characters at these (M,) positions."""
    hashes = np.empty(len(positions), np.uint64)
    for i in range(len(positions)):
        hashes[i] = _mixed(_hash(codes, positions[i], n))
    return hashes


@compiled
def _filters_of(hashes: Hashes, shift: np.uint64) -> Hashes:
    """(2^bits,) Index.filters of the (M,) hashes."""
    filters = np.zeros(1 << (64 - np.int64(shift)), np.uint64)
    for h in hashes:
        filters[h >> shift] |= _flag(h, shift)
    return filters


@compiled
def _are_varied(codes: Codes, positions: Ints, n: int, min_kinds: int) -> Bools:
    """(M,) which of the grams at these (M,) positions have min_kinds different characters or more."""
    is_varied = np.empty(len(positions), np.bool_)
    for i in range(len(positions)):
        is_varied[i] = _has_kinds(codes, positions[i], n, min_kinds)
    return is_varied


@compiled
def _mark_grams(
    codes: Codes, index: Index, text: Codes, start: int, found: Bools, met: Bools, first_own: int, after_own: int
) -> None:
    """Mark the (len(met),) grams of a text from start on that are indexed, and the (M,) entries `found` that they meet.

    Entries at positions from first_own up to after_own are not looked at.
    """
    # a tuple that is passed on costs more than the look-up: its arrays are counted in and out
    hashes, positions, firsts, filters, shift, n, _, _ = index
    power, h = BASE ** np.uint64(n), _hash(text, start, n)
    for i in range(len(met)):
        if i > 0:
            h = _rolled(text, h, start + i, n, power)
        mixed = _mixed(h)
        if filters[mixed >> shift] & _flag(mixed, shift):
            entry = _entry(hashes, firsts, shift, mixed)
            if entry < len(hashes) and first_own <= positions[entry] < after_own:
                entry = _last_entry(hashes, firsts, shift, mixed)  # equal ones are in the order of their positions
                if positions[entry] < after_own:
                    continue
            if entry < len(hashes) and _is_equal(codes, positions[entry], text, start + i, n):
                found[entry] = met[i] = True


@compiled
def _fill_runs(
    codes: Codes,
    index: Index,
    starts: Ints,
    stops: Ints,
    text: Codes,
    start: int,
    stop: int,
    at: int,
    rows: Ints,
) -> tuple[int, int]:
    """Fill rows, scanning from `at` until they are full; returns how many and where to go on."""
    hashes, positions, firsts, filters, shift, n, step, min_kinds = index
    power, h, n_rows = BASE ** np.uint64(n), _hash(text, at, n), 0
    for b in range(at, stop - n + 1):
        if b > at:
            h = _rolled(text, h, b, n, power)
        mixed = _mixed(h)
        if not filters[mixed >> shift] & _flag(mixed, shift):
            continue
        if n_rows + MAX_COPIES > len(rows):
            return n_rows, b
        first = _entry(hashes, firsts, shift, mixed)
        for entry in range(first, min(first + MAX_COPIES, len(hashes))):
            a = positions[entry]
            if hashes[entry] != mixed:
                break
            if not _is_equal(codes, a, text, b, n):
                continue
            span = np.searchsorted(starts, a, side="right") - 1
            left, most, is_reported = 0, min(a - starts[span], b - start), False
            while left < most and not is_reported and codes[a - left - 1] == text[b - left - 1]:
                left += 1
                is_reported = left % step == 0 and _has_kinds(codes, a - left, n, min_kinds)
            if is_reported:  # by an indexed gram before this one, which is equal too
                continue
            length, most = n, min(stops[span] - a, stop - b)
            while length < most and codes[a + length] == text[b + length]:
                length += 1
            rows[n_rows, 0], rows[n_rows, 1], rows[n_rows, 2] = a - left, b - left, left + length
            n_rows += 1
    return n_rows, stop


@compiled
def _hash(codes: Codes, position: int, n: int) -> np.uint64:
    h = np.uint64(0)
    for i in range(position, position + n):
        h = h * BASE + np.uint64(codes[i])
    return h


@compiled
def _mixed(h: np.uint64) -> np.uint64:
    """The low bits of a polynomial depend on the low bits of characters only; the index sorts by the high ones."""
    h = (h ^ (h >> HALF)) * MIX
    return h ^ (h >> HALF)


@compiled
def _rolled(codes: Codes, h: np.uint64, position: int, n: int, power: np.uint64) -> np.uint64:
    """The hash of the gram at `position` from that of the gram one before; `power` is BASE^n."""
    return h * BASE + np.uint64(codes[position + n - 1]) - np.uint64(codes[position - 1]) * power


@compiled
def _flag(h: np.uint64, shift: np.uint64) -> np.uint64:
    return np.uint64(1) << ((h >> (shift - np.uint64(6))) & np.uint64(63))


@compiled
def _entry(hashes: Hashes, firsts: npt.NDArray[np.int32], shift: np.uint64, h: np.uint64) -> int:
    """The first entry with this hash; M if there is none."""
    slot = np.int64(h >> shift)
    for entry in range(firsts[slot], firsts[slot + 1]):
        if hashes[entry] >= h:
            return entry if hashes[entry] == h else len(hashes)
    return len(hashes)


@compiled
def _last_entry(hashes: Hashes, firsts: npt.NDArray[np.int32], shift: np.uint64, h: np.uint64) -> int:
    """The last entry with this hash, which has one."""
    slot = np.int64(h >> shift)
    return firsts[slot] + np.searchsorted(hashes[firsts[slot] : firsts[slot + 1]], h, side="right") - 1


@compiled
def _is_equal(codes: Codes, a: int, text: Codes, b: int, n: int) -> bool:
    i = 0
    while i < n and codes[a + i] == text[b + i]:
        i += 1
    return i == n


@compiled
def _has_kinds(codes: Codes, position: int, n: int, min_kinds: int) -> bool:
    """Whether a gram has so many different characters."""
    n_kinds = 0
    for i in range(position, position + n):
        is_new = True
        for k in range(position, i):
            is_new &= codes[k] != codes[i]
        n_kinds += is_new
        if n_kinds >= min_kinds:
            return True
    return False


@compiled
def chain(runs: Ints, owners: Ints, max_gap: int, look_back: int) -> Ints:
    """Join runs that follow each other in both texts with at most max_gap characters between them, as in aligners of
    genomes (MUMmer, Delcher et al., "Alignment of whole genomes", 1999: what stands in a gap was changed).

    runs: (m, 3) as `equal_runs` yields them, sorted by (owner, start in the other text).
    owners: (m,) which span of the indexed text each run is in.
    Returns (c, 6): owner, start and stop in codes, start and stop in the other text, how many characters are equal. A
    run goes to the chain with the nearest diagonal (the difference of its positions), of those of the last look_back
    runs only, so that a refrain costs no more than other text.
    """
    chains = np.empty((len(runs), 6), np.int64)
    chain_of = np.empty(len(runs), np.int64)
    n_chains = 0
    for i in range(len(runs)):
        a, b, length = runs[i]
        best, nearest = -1, max_gap + 1
        for k in range(i - 1, max(i - 1 - look_back, -1), -1):
            if owners[k] != owners[i]:
                break
            _, start_a, stop_a, start_b, stop_b, _ = chains[chain_of[k]]
            is_after = start_a < a and start_b < b and stop_a < a + length and stop_b < b + length
            drift = abs((a + length - stop_a) - (b + length - stop_b))
            if is_after and a - stop_a <= max_gap and b - stop_b <= max_gap and drift < nearest:
                best, nearest = chain_of[k], drift
        if best < 0:
            best = n_chains
            n_chains += 1
            chains[best] = owners[i], a, a + length, b, b + length, length
        else:
            overlap = max(0, chains[best, 2] - a, chains[best, 4] - b)
            chains[best, 2], chains[best, 4] = a + length, b + length
            chains[best, 5] += length - overlap
        chain_of[i] = best
    return chains[:n_chains].copy()
