"""Passages that stand in two works, exactly or nearly, and the groups of works that share them.

Equal runs of SEED characters or more are found first (grams.py). Runs that follow each other in both works with small
gaps are one passage (lookup.chain): what stands in a gap was changed.

The spans of `codes` are looked up at any place, those of `text` are read from start to end. Both may be one array; of a
text that the memory does not hold they are two mappings of one file (splits/division.py).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from bukva.core.progress import Read, unread
from bukva.corpus.repeats.grams import ANYWHERE, equal_runs, index_parts, n_parts
from bukva.corpus.repeats.lookup import Codes, Ints, Spans, chain

if TYPE_CHECKING:
    import pandas as pd

MIN_CHARS = 60  # a line of prose: common phrases and single verses are shorter
SEED = 16  # characters that a changed passage must still have in a row now and then
STEP = 16  # so a run of SEED + STEP - 1 characters is always found, a shorter one sometimes
KINDS = 8  # different characters of a seed at least: rows of dots stand in many works and are no text
MAX_GAP = 120  # characters between two runs of one passage
MIN_EQUAL = 0.4  # of a passage's characters: a form of address that keeps returning is no passage
LOOK_BACK = 64  # runs that may be the one before in a passage

COLUMNS = ["work_a", "start_a", "stop_a", "work_b", "start_b", "stop_b", "chars"]


def shared_passages(
    codes: Codes, text: Codes, works: Spans, min_chars: int = MIN_CHARS, read: Read = unread
) -> "pd.DataFrame":
    """Passages that stand in two works, with at least min_chars >= SEED + STEP - 1 equal characters.

    codes and text: (N,) characters of the joined corpus; works: (n_works, 2) spans. Each row has two rows of `works`,
    the passage's spans in the joined corpus, and how many characters are equal; work_a < work_b.
    """
    return _table(_passages(codes, works, text, works, min_chars, read, is_one_text=True))


def passages_between(
    codes: Codes,
    spans_a: Spans,
    text: Codes,
    spans_b: Spans,
    min_chars: int = MIN_CHARS,
    read: Read = unread,
) -> "pd.DataFrame":
    """The same for passages of spans_a of codes that stand in spans_b of a text; work_a and work_b are rows of each,
    and may be equal."""
    return _table(_passages(codes, spans_a, text, spans_b, min_chars, read, is_one_text=False))


def runs_between(
    codes: Codes,
    spans_a: Spans,
    text: Codes,
    spans_b: Spans,
    step: int,
    read: Read = unread,
    *,
    is_one_text: bool = False,
) -> Iterator[Ints]:
    """Equal runs of SEED + step - 1 characters or more, and some shorter ones: (m, 5) rows of work_a, work_b, start_a,
    start_b, length, each array of one work_b. In one text, work_a is before work_b."""
    filled = np.flatnonzero(spans_a[:, 1] > spans_a[:, 0])  # of spans with one start, the one that has text
    spans = spans_a[filled].astype(np.int64)
    for index in index_parts(codes, spans, SEED, step, KINDS):
        for work, (start, stop) in enumerate(spans_b.tolist()):
            for runs in equal_runs(codes, index, spans, text, start, stop, start if is_one_text else ANYWHERE):
                owners = filled[np.searchsorted(spans[:, 0], runs[:, 0], side="right") - 1]
                yield np.column_stack([owners, np.full(len(runs), work), runs])
            read(stop - start)


def chars_read(spans_a: Spans, spans_b: Spans, step: int = STEP) -> int:
    """How many characters runs_between reads: spans_b once for each index of spans_a."""
    return n_parts(spans_a, SEED, step) * int(np.diff(spans_b).sum())


def groups(passages: "pd.DataFrame", works: Spans, min_chars: int, min_share: float) -> Ints:
    """(n_works,) the group of each work, numbered from 0: works linked, directly or not, by what they share.

    Two works are linked if all passages that they share have min_chars equal characters, or min_share of the shorter
    work: an epigraph links no novels, and a short poem is linked with the collection that it stands in.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    a, b, chars = _shared(passages, works)
    lengths = works[:, 1] - works[:, 0]
    is_linked = (chars >= min_chars) | (chars >= min_share * np.minimum(lengths[a], lengths[b]))
    a, b = a[is_linked], b[is_linked]
    n_works = len(works)
    _, labels = connected_components(coo_matrix((np.ones(len(a)), (a, b)), (n_works, n_works)), directed=False)
    return labels.astype(np.int64)


def _shared(passages: "pd.DataFrame", works: Spans) -> tuple[Ints, Ints, Ints]:
    """Each pair of works with passages, and how many characters of one or the other, the lesser, stand in them."""
    keys = (passages["work_a"] * len(works) + passages["work_b"]).to_numpy()
    pairs, pair = np.unique(keys, return_inverse=True)
    covered = [
        np.bincount(pair, covered_chars(pair, *passages[[f"start_{x}", f"stop_{x}"]].to_numpy().T), len(pairs))
        for x in "ab"
    ]
    a, b = np.divmod(pairs, len(works))
    return a, b, np.minimum(*covered).astype(np.int64)


def covered_chars(groups: Ints, starts: Ints, stops: Ints) -> Ints:
    """(m,) spans in groups -> (m,) how many characters each covers that no span of its group before it does."""
    order = np.lexsort((starts, groups))
    shift = groups[order] * (stops.max(initial=0) + 1)  # one line of spans, group after group
    starts, stops = starts[order] + shift, stops[order] + shift
    covered = np.zeros(len(starts), np.int64)
    before = np.maximum.accumulate(np.concatenate([[0], stops]))[:-1]
    covered[order] = np.maximum(stops - np.maximum(starts, before), 0)
    return covered


def _passages(
    codes: Codes, spans_a: Spans, text: Codes, spans_b: Spans, min_chars: int, read: Read, *, is_one_text: bool
) -> Iterator[Ints]:
    """(m, 7) rows of COLUMNS. A passage that crosses the border of two indices or of CAPACITY runs becomes two."""
    if min_chars < SEED + STEP - 1:
        raise ValueError(f"min_chars is {min_chars}; passages shorter than {SEED + STEP - 1} may be missed")
    for runs in runs_between(codes, spans_a, text, spans_b, STEP, read, is_one_text=is_one_text):
        runs = runs[np.lexsort((runs[:, 3], runs[:, 0]))]
        chains = chain(runs[:, 2:], runs[:, 0], MAX_GAP, LOOK_BACK)  # (c, 6)
        longer = np.maximum(chains[:, 2] - chains[:, 1], chains[:, 4] - chains[:, 3])
        chains = chains[chains[:, 5] >= np.maximum(min_chars, MIN_EQUAL * longer)]
        yield np.insert(chains, 3, runs[0, 1], axis=1)


def _table(rows: Iterator[Ints]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(np.concatenate([np.empty((0, len(COLUMNS)), np.int64), *rows]), columns=COLUMNS)
