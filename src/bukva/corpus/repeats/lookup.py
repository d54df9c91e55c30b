"""An index of grams by their hashes, and the loops that look them up, compiled.

Hashes are polynomials modulo 2^64. Equal hashes only say where to look: every match has been read.

All compiled functions about hashes are here, because their machine code is kept by the content of their module.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bukva.core.compiled import compiled

Codes = npt.NDArray[np.unsignedinteger]  # (N,) code points or ids of the joined corpus; may be mapped from a file
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Spans = Ints  # (n_spans, 2) starts and stops in the joined corpus, ascending, not overlapping

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


@compiled
def hashes_of(codes: Codes, positions: Ints, n: int) -> Hashes:
    """(M,) hashes of the grams of n characters at these (M,) positions."""
    hashes = np.empty(len(positions), np.uint64)
    for i in range(len(positions)):
        hashes[i] = _mixed(_hash(codes, positions[i], n))
    return hashes


@compiled
def filters_of(hashes: Hashes, shift: np.uint64) -> Hashes:
    """(2^bits,) Index.filters of the (M,) hashes."""
    filters = np.zeros(1 << (64 - np.int64(shift)), np.uint64)
    for h in hashes:
        filters[h >> shift] |= _flag(h, shift)
    return filters


@compiled
def are_varied(codes: Codes, positions: Ints, n: int, min_kinds: int) -> Bools:
    """(M,) which of the grams at these (M,) positions have min_kinds different characters or more."""
    is_varied = np.empty(len(positions), np.bool_)
    for i in range(len(positions)):
        is_varied[i] = _has_kinds(codes, positions[i], n, min_kinds)
    return is_varied


@compiled
def mark_grams(
    codes: Codes, index: Index, text: Codes, start: int, found: Bools, met: Bools, first_own: int, after_own: int
) -> None:
    """Mark the (len(met),) grams of a text from start on that are indexed, and the (M,) entries `found` that they meet.

    Entries at positions from first_own up to after_own are not looked at.
    """
    # a tuple that is passed on costs more than the look-up: its arrays are counted in and out
    hashes, positions, firsts, filters, shift, n, _, _ = index
    power, h = _power(n), _hash(text, start, n)
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
def fill_runs(
    codes: Codes,
    index: Index,
    starts: Ints,
    stops: Ints,
    text: Codes,
    start: int,
    stop: int,
    at: int,
    before: int,
    max_copies: int,
    rows: Ints,
) -> tuple[int, int]:
    """Fill rows, scanning from `at` until they are full; returns how many and where to go on."""
    hashes, positions, firsts, filters, shift, n, step, min_kinds = index
    power, h, n_rows = _power(n), _hash(text, at, n), 0
    for b in range(at, stop - n + 1):
        if b > at:
            h = _rolled(text, h, b, n, power)
        mixed = _mixed(h)
        if not filters[mixed >> shift] & _flag(mixed, shift):
            continue
        if n_rows + max_copies > len(rows):
            return n_rows, b
        first = _entry(hashes, firsts, shift, mixed)
        for entry in range(first, min(first + max_copies, len(hashes))):
            a = positions[entry]
            if hashes[entry] != mixed or a >= before:
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
def _power(n: int) -> np.uint64:
    """What the first character of a gram was multiplied by when the n-th after it is added."""
    power = np.uint64(1)
    for _ in range(n):
        power *= BASE
    return power


@compiled
def _rolled(codes: Codes, h: np.uint64, position: int, n: int, power: np.uint64) -> np.uint64:
    """The hash of the gram at `position` from that of the gram one before."""
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
