"""The shares of train, val and test as one table, with what repeats between works kept out of train, or together.

A row is a run of characters of one work in one split. Stage tokenize makes the table, because a vocabulary may be that
of train, and counts every row in ids, too; stage split reads it.
"""

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.config.messages import WAY_BACK
from bukva.config.schema import Split
from bukva.core.errors import BukvaError
from bukva.core.progress import counting
from bukva.corpus.splits.strategies import spans
from bukva.text.characters import Codes, code_points
from bukva.text.collection import read_texts
from bukva.text.splits import Spans

if TYPE_CHECKING:
    import pandas as pd

# Works that share so much come into the same split. With 1,000 characters quotations join a quarter of RusLit
# (docs/dev/log.md).
GROUP_CHARS = 5_000
GROUP_SHARE = 0.2  # of the shorter work
SEARCH = "tokenize: looking for text that stands in two works"


def divide(clean: Path, table: "pd.DataFrame", split: Split) -> "pd.DataFrame":
    """The table of shares: split, work (its row in the table of works), and start and stop in the joined text.

    Its rows are in the order of the text; every work has a row of every split, which may be empty. Under
    split.duplicates `remove`, what val and test have in common with other works' train is cut out of train, and under
    `group` works that have much in common come into the same split.

    Raises:
        BukvaError: there are fewer works, or authors, than splits; or nothing is left of train.
    """
    if split.duplicates == "keep":
        return rows_of(spans(table, split))
    # here, because numba takes 0.3 s to import
    from bukva.corpus.repeats.duplicates import chars_read, groups, shared_passages
    from bukva.corpus.repeats.leaks import chars_to_cut, cut_from

    with mapped_codes(clean, table) as (codes, text):
        works, n = _works(table), split.duplicate_chars
        if split.duplicates == "group":
            with counting(SEARCH, chars_read(works, works)) as read:
                passages = shared_passages(codes, text, works, n, read)
            return rows_of(spans(table, split, groups(passages, works, GROUP_CHARS, GROUP_SHARE)))
        whole = spans(table, split)
        train, apart = whole["train"], held_out(whole)
        with counting(SEARCH, chars_to_cut(apart, train, n)) as read:
            left = cut_from(codes, apart, text, train, works, n, read)
    if not len(left) and np.diff(train).any():
        raise BukvaError(
            "params.yaml, split.duplicates: remove leaves nothing of train, because all of it stands in val or test, "
            f"too; use keep, or take the copies out of the texts.\n{WAY_BACK}"
        )
    return rows_of(whole, left)


def in_characters(shares: "pd.DataFrame") -> "pd.DataFrame":
    """The shares with first_id and ids, for ids that stand for one character each."""
    return shares.assign(first_id=shares["start"], ids=shares["stop"] - shares["start"])


def held_out(shares: dict[str, Spans]) -> Spans:
    """(n, 2) the spans of val and test together, ascending."""
    both = np.concatenate([span for name, span in shares.items() if name != "train"])
    return both[np.argsort(both[:, 0], kind="stable")]


@contextmanager
def mapped_codes(clean: Path, table: "pd.DataFrame") -> Iterator[tuple[Codes, Codes]]:
    """(N,) the code points of the joined text, mapped twice from a file that is deleted afterwards: to look up at any
    place, and to read from start to end.

    The system reads ahead in the second only. Where the file does not fit the memory, reading ahead at every place that
    an index names reads the file a hundred times (docs/dev/log.md).
    """
    with tempfile.TemporaryFile(dir=clean.parent) as file:
        for _, text in read_texts(clean, table):
            for piece in text:
                file.write(code_points(piece).astype(np.uint32).data)
        file.flush()
        yield _mapped(file, mmap.MADV_RANDOM), _mapped(file, mmap.MADV_SEQUENTIAL)


def _mapped(file: IO[bytes], advice: int) -> Codes:
    if not file.tell():
        return np.empty(0, np.uint32)  # an empty file cannot be mapped
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(advice)
    return np.frombuffer(mapped, np.uint32)


def _works(table: "pd.DataFrame") -> Spans:
    stops = table["chars"].to_numpy(np.int64).cumsum()
    return np.stack([stops - table["chars"], stops], axis=1)


def rows_of(shares: dict[str, Spans], train: npt.NDArray[np.int64] | None = None) -> "pd.DataFrame":
    """The table of the shares; `train` is (m, 3) work, start and stop of what remains of train. A work of which nothing
    remains has an empty row."""
    import pandas as pd

    parts = []
    for number, span in enumerate(shares.values()):
        rows = np.column_stack([np.arange(len(span)), span])
        if number == 0 and train is not None:
            rows = np.concatenate([np.delete(rows[:, [0, 1, 1]], train[:, 0], axis=0), train])
        parts.append(np.column_stack([np.full(len(rows), number), rows]))
    joined = np.concatenate(parts)
    split, work, start, stop = joined[np.lexsort((joined[:, 0], joined[:, 2], joined[:, 1]))].T
    return pd.DataFrame({"split": np.array(list(shares))[split], "work": work, "start": start, "stop": stop})
