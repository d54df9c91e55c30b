"""Find sequences of characters that occur in two texts.

An n-gram is a sequence of n consecutive characters. The index of the first text contains only the n-grams that start at
a multiple of `step`. In the second text, the n-grams at all positions are looked up in the index by their hashes. (A
hash is a polynomial modulo 2^64.) If two hashes are equal, the characters are compared before a match is reported.

Any n + step - 1 consecutive characters of the first text contain an indexed n-gram. Therefore every repeat of this
length is found, although the index is smaller than the text. Manber ("Finding similar files in a large file system",
1994) samples both texts by hash, which guarantees nothing. Winnowing (Schleimer et al. 2003) gives the same guarantee
as this module, but with twice as many index entries.
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
Spans = Ints  # (n_spans, 2) start and stop positions in the joined corpus, ascending, not overlapping

# Approximate number of n-grams in an index. An n-gram needs 16 bytes, and another 16 bytes while the index is sorted. A
# text with more n-grams gets several indices.
ENTRIES = 1 << 22
CAPACITY = 1 << 18  # maximum number of equal runs in memory, 24 bytes each
# Maximum number of occurrences of an n-gram that are compared. Without a limit, searching for a notice that is in every
# work would take much longer than searching for other text.
MAX_COPIES = 64
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication modulo 2^64 loses no information
MIX = np.uint64(0xBF58476D1CE4E5B9)
HALF = np.uint64(32)


class Index(NamedTuple):
    """Index of M n-grams of a text, sorted by hash. N-grams with equal hashes are sorted by position.

    Each of the M n-grams is one entry. The prefix of a hash is its highest `bits` bits, where `bits` is 64 - `shift`.

    hashes: (M,) hash of each n-gram.
    positions: (M,) position of the first character of each n-gram.
    firsts: (2^bits + 1,) for each prefix, the number of the first entry with this prefix or a higher prefix.
    filters: (2^bits,) for each prefix, 64 flags. They say which values of the next six bits of a hash occur in the
        index. The flags alone rule out most n-grams that are not in the index. So the lookup of such an n-gram causes
        only one miss in the processor's cache.
    shift: 64 - bits.
    n, step, min_kinds: the arguments of `index_parts`.
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
    """Index the n-grams of a text. Yield several indices, each with about ENTRIES n-grams.

    Args:
        codes: code points of the text.
        spans: (m, 2) start and stop positions of the parts of the text to index. An n-gram must lie within one part.
        n: length of an n-gram in characters.
        step: an n-gram is indexed only if its position is a multiple of this number.
        min_kinds: minimum number of different characters in an n-gram. It excludes rows of dots and "ha ha ha".
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
    """Yield the positions of all n-grams to index, in ascending order and in arrays of about ENTRIES positions."""
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
    codes: Codes, index: Index, text: Codes, spans: Spans, matched_entries: Bools, own: Spans | None = None
) -> Iterator[Spans]:
    """Find the n-grams of a text that are in an index.

    Args:
        codes: code points of the indexed text.
        index: an index of `codes` with M entries.
        text: code points of the text to scan. May be the same array as `codes`.
        spans: (m, 2) start and stop positions of the parts of `text` to scan.
        matched_entries: (M,) output. The flag of an index entry is set to True if its n-gram is found in `text`. If
            `own` is None, only the first of several entries with equal hashes is flagged (`with_equal_hashes` flags the
            others).
        own: (m, 2) start and stop positions in `codes`. Row i names the entries to ignore while row i of `spans` is
            scanned.

    Yields:
        (k, 2) start and stop positions in `text`, ascending, of the passages that matching n-grams cover. The text is
        scanned in pieces, and each piece with matches gives one array. The last passage of one piece can overlap the
        first passage of the next piece.
    """
    own = np.zeros_like(spans) if own is None else own
    for (start, stop), (first_own, after_own) in zip(spans.tolist(), own.tolist(), strict=True):
        for at in range(start, stop - index.n + 1, PIECE_CHARS):
            n_grams = min(PIECE_CHARS, stop - index.n + 1 - at)
            matched_grams = np.zeros(n_grams + 2, np.bool_)  # with a margin of 1 on both sides
            _mark_grams(codes, index, text, at, matched_entries, matched_grams[1:-1], first_own, after_own)
            edges = np.flatnonzero(matched_grams[1:] != matched_grams[:-1])
            first, after = edges.reshape(-1, 2).T  # of each sequence of consecutive matches
            if len(first):
                yield np.stack([at + first, at + after - 1 + index.n], axis=1)


def with_equal_hashes(index: Index, matched_entries: Bools) -> Bools:
    """Return (M,) flags of all index entries that have the same hash as a matched entry.

    `matched_entries` must come from `scan_grams` without `own`, which flags only the first entry of each hash.
    Different n-grams with the same hash count as equal. In an index of ENTRIES n-grams, such n-grams exist with a
    probability of 5e-7.
    """
    is_first = np.ones(len(matched_entries), np.bool_)
    np.not_equal(index.hashes[1:], index.hashes[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    return np.repeat(matched_entries[firsts], np.diff(firsts, append=len(matched_entries)))


def equal_runs(codes: Codes, index: Index, spans: Spans, text: Codes, start: int, stop: int) -> Iterator[Ints]:
    """Find runs of characters that occur both in the indexed text and in text[start:stop].

    Each run contains an indexed n-gram, and is extended in both directions while the characters are equal. Each n-gram
    of `text` is compared with only the first MAX_COPIES of its occurrences in the index.

    Args:
        codes: code points of the indexed text.
        index: an index of `codes`.
        spans: (k, 2) start and stop positions of the indexed parts of `codes`. A run lies within one part.
        text: code points of the other text.
        start: position in `text` where the scan starts.
        stop: position in `text` where the scan stops.

    Yields:
        (m, 3) arrays with at most CAPACITY rows. Each row is a run: its start in `codes`, its start in `text`, and its
        length.
    """
    rows = np.empty((CAPACITY, 3), np.int64)
    starts, stops = np.ascontiguousarray(spans[:, 0]), np.ascontiguousarray(spans[:, 1])
    at = start
    while at <= stop - index.n:
        n_rows, at = _fill_runs(codes, index, starts, stops, text, start, stop, at, rows)
        if n_rows:
            yield rows[:n_rows].copy()


# ---- compiled loops; all in one module, because the cache of machine code is keyed by the content of the module


@compiled
def _hashes_of(codes: Codes, positions: Ints, n: int) -> Hashes:
    """Return the (M,) hashes of the n-grams at (M,) positions."""
    hashes = np.empty(len(positions), np.uint64)
    for i in range(len(positions)):
        hashes[i] = _mixed(_hash(codes, positions[i], n))
    return hashes


@compiled
def _filters_of(hashes: Hashes, shift: np.uint64) -> Hashes:
    """Compute the field `filters` of an `Index`, of shape (2^(64 - shift),), from its (M,) hashes."""
    filters = np.zeros(1 << (64 - np.int64(shift)), np.uint64)
    for h in hashes:
        filters[h >> shift] |= _flag(h, shift)
    return filters


@compiled
def _are_varied(codes: Codes, positions: Ints, n: int, min_kinds: int) -> Bools:
    """Return (M,) flags that say whether the n-gram at each position has at least `min_kinds` different characters."""
    is_varied = np.empty(len(positions), np.bool_)
    for i in range(len(positions)):
        is_varied[i] = _has_kinds(codes, positions[i], n, min_kinds)
    return is_varied


@compiled
def _mark_grams(
    codes: Codes,
    index: Index,
    text: Codes,
    start: int,
    matched_entries: Bools,
    matched_grams: Bools,
    first_own: int,
    after_own: int,
) -> None:
    """Look up len(matched_grams) consecutive n-grams of a text in an index."""
    # Unpacked, because passing the tuple to another function costs more than the lookup: numba would count references
    # to the tuple.
    hashes, positions, firsts, filters, shift, n, _, _ = index
    power, h = BASE ** np.uint64(n), _hash(text, start, n)
    for i in range(len(matched_grams)):
        if i > 0:
            h = _rolled(text, h, start + i, n, power)
        mixed = _mixed(h)
        if filters[mixed >> shift] & _flag(mixed, shift):
            entry = _entry(hashes, firsts, shift, mixed)
            if entry < len(hashes) and first_own <= positions[entry] < after_own:
                entry = _last_entry(hashes, firsts, shift, mixed)  # entries with equal hashes are sorted by position
                if positions[entry] < after_own:
                    continue
            if entry < len(hashes) and _is_equal(codes, positions[entry], text, start + i, n):
                matched_entries[entry] = matched_grams[i] = True


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
    """Scan a text from `at` to `stop` for equal runs of characters, and write the runs to `rows` (see `equal_runs`)."""
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
            left, limit, is_reported = 0, min(a - starts[span], b - start), False
            while left < limit and not is_reported and codes[a - left - 1] == text[b - left - 1]:
                left += 1
                is_reported = left % step == 0 and _has_kinds(codes, a - left, n, min_kinds)
            if is_reported:  # the run has been reported at an earlier indexed gram
                continue
            length, limit = n, min(stops[span] - a, stop - b)
            while length < limit and codes[a + length] == text[b + length]:
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
    """Mix the low and high bits of a polynomial hash, because the index is sorted by the high bits."""
    h = (h ^ (h >> HALF)) * MIX
    return h ^ (h >> HALF)


@compiled
def _rolled(codes: Codes, h: np.uint64, position: int, n: int, power: np.uint64) -> np.uint64:
    """Return the hash of the n-gram at `position`, computed from the hash `h` of the n-gram one position earlier."""
    return h * BASE + np.uint64(codes[position + n - 1]) - np.uint64(codes[position - 1]) * power


@compiled
def _flag(h: np.uint64, shift: np.uint64) -> np.uint64:
    return np.uint64(1) << ((h >> (shift - np.uint64(6))) & np.uint64(63))


@compiled
def _entry(hashes: Hashes, firsts: npt.NDArray[np.int32], shift: np.uint64, h: np.uint64) -> int:
    """Return the number of the first index entry with the hash `h`, or len(hashes) if no entry has this hash."""
    slot = np.int64(h >> shift)
    for entry in range(firsts[slot], firsts[slot + 1]):
        if hashes[entry] >= h:
            return entry if hashes[entry] == h else len(hashes)
    return len(hashes)


@compiled
def _last_entry(hashes: Hashes, firsts: npt.NDArray[np.int32], shift: np.uint64, h: np.uint64) -> int:
    """Return the number of the last index entry with the hash `h`. At least one entry must have this hash."""
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
    """Return whether the n-gram at `position` has at least `min_kinds` different characters."""
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
    """Join equal runs of characters into chains if the runs follow each other in both texts.

    The first text is the indexed text of `equal_runs`, and the second text is the scanned text. A gap between two runs
    of a chain is text that was changed. Genome aligners such as MUMmer (Delcher et al., "Alignment of whole genomes",
    1999) use the same method.

    The diagonal of a run is its position in the first text minus its position in the second text. A run is added to the
    chain with the nearest diagonal. Only the chains of the previous `look_back` runs are candidates, so that a text
    with a refrain does not take longer than other text.

    Args:
        runs: (m, 3) runs as `equal_runs` yields them, sorted by `owners` and then by the start in the second text.
        owners: (m,) number of the indexed part of the first text to which each run belongs.
        max_gap: maximum number of characters between two joined runs, in each text.
        look_back: maximum number of previous runs to which a run can be joined.

    Returns:
        (c, 6) array with a chain in each row: its owner, its start and stop in the first text, its start and stop in
        the second text, and its number of equal characters.
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
