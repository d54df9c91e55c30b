"""Divide a corpus into train, val and test without repeats in train, train the tokenizer, and encode the text.

Stage tokenize does all of this, because a vocabulary may have to be learned from the training split alone.
"""

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import progress_bar, with_progress
from bukva.core.schema import Split, Tokenize
from bukva.corpus.repeats import cut_from
from bukva.text.collection import Work, read_codes, read_table, read_texts
from bukva.text.ids import SHARES, SPLITS, Spans, save_ids
from bukva.text.tokenizers import TOKENIZERS, Tokenizer, save_tokenizer

if TYPE_CHECKING:
    import pandas as pd

MAX_SYMBOLS = 20_000  # Chinese has about 10,000; the bigram has a weight for every pair of symbols, here 1.6 GB
REPEAT_CHARS = 60  # minimum length of a passage that is cut out of train because val or test has it
ROUNDS = 20  # maximum number of passes of `_stratify` over all units; three passes are usually enough

Ints = npt.NDArray[np.int64]


def tokenize(clean: Path, target: Path, tokenize: Tokenize, split: Split) -> tuple[Tokenizer, int, int]:
    """Divide the corpus in the folder `clean` into splits, train a tokenizer, and encode the text.

    Three files are written to the folder `target`. vocab.json contains the tokenizer, and ids.npy contains the ids of
    the text in its order. shares.parquet is the table of shares (see `divide`) with two more columns: `first_id`, the
    position of the first id of a share in ids.npy, and `ids`, the number of ids of the share. Returns the tokenizer,
    the number of ids, and the number of characters that were cut out of train as repeats.
    """
    table = read_table(clean)
    shares = divide(clean, table, split)
    n_chars = int((shares["stop"] - shares["start"]).sum())
    tokenizer = _train_tokenizer(clean, table, shares, tokenize)
    parts, lengths, begun = [np.empty(0, tokenizer.dtype)], list[int](), set[str]()
    with progress_bar("tokenize", n_chars) as show:
        for work, name, share in _texts_of(clean, table, shares):
            # The first character of a split shares no id with the second one. An alphabet gives each its own id anyway.
            n_first = 0 if tokenizer.alphabet or name in begun else 1
            try:
                ids = [tokenizer.encode(part) for part in (share[:n_first], share[n_first:])]
            except BukvaError as error:
                raise ParamsError(f"{work.name}: {error}; use tokenize.vocabulary=all.") from None
            parts += ids
            lengths.append(sum(map(len, ids)))
            if share:
                begun.add(name)
            show(len(share))
    stops = np.cumsum(lengths)
    with atomic_folder(target) as folder:
        save_ids(folder / "ids.npy", parts)
        shares.assign(first_id=stops - lengths, ids=lengths).to_parquet(folder / SHARES, index=False)
        save_tokenizer(folder, tokenizer)
    return tokenizer, sum(lengths), int(table["chars"].sum()) - n_chars


def _texts_of(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame") -> Iterator[tuple[Work, str, str]]:
    """Yield the work, the split and the text of each share."""
    by_work = shares.groupby("work")
    for row, (work, text) in enumerate(read_texts(clean, table)):
        first = table["start"][row]
        for name, start, stop in by_work.get_group(row)[["split", "start", "stop"]].itertuples(index=False):
            yield work, name, text[start - first : stop - first]


def _train_tokenizer(clean: Path, table: "pd.DataFrame", shares: "pd.DataFrame", tokenize: Tokenize) -> Tokenizer:
    """Train the tokenizer on the training split or, with `tokenize.vocabulary=all`, on all works."""
    texts = (text for _, text in read_texts(clean, table))
    if (tokenize.kind, tokenize.vocabulary) != ("char", "all"):
        texts = (text for _, name, text in _texts_of(clean, table, shares) if name == "train")
    shown = with_progress(texts, "tokenize: learning the vocabulary", int(table["chars"].sum()))
    tokenizer = TOKENIZERS[tokenize.kind].train(shown, tokenize.vocab_size)
    if len(tokenizer) > MAX_SYMBOLS:
        raise ParamsError(
            f"The text has {len(tokenizer):,} different characters, but a model supports at most {MAX_SYMBOLS:,}; use "
            "a text in fewer scripts, or check its encoding."
        )
    return tokenizer


def divide(clean: Path, table: "pd.DataFrame", split: Split) -> "pd.DataFrame":
    """Divide the corpus in the folder `clean`, with the table of works `table`, and return the table of shares.

    A share is a contiguous part of a work that belongs to one split. The table has one row for each share, in the order
    of the text. The columns are `split` (name of the split), `work` (row in the table of works), and `start` and `stop`
    (positions in the joined text of all works). Every work has a row for each split, although the share may be empty.

    With `split.duplicates=remove`, passages that also occur in val or test of another work are cut out of train.
    """
    whole = spans(table, split)
    if split.duplicates == "keep":
        return share_table(whole)
    held_out = np.concatenate([span for name, span in whole.items() if name != "train"])
    held_out = held_out[np.argsort(held_out[:, 0], kind="stable")]
    stops = table["chars"].to_numpy(np.int64).cumsum()
    works = np.stack([stops - table["chars"], stops], axis=1)
    remaining = cut_from(read_codes(clean, table), held_out, whole["train"], works, REPEAT_CHARS)
    if not len(remaining) and np.diff(whole["train"]).any():
        raise ParamsError(
            "params.yaml, split.duplicates=remove: nothing is left in train, because its whole text also occurs in val "
            "or test; use split.duplicates=keep, or remove the copies from the corpus."
        )
    return share_table(whole, remaining)


def share_table(shares: dict[str, Spans], train: Ints | None = None) -> "pd.DataFrame":
    """Build the table of shares (see `divide`) from the (n_works, 2) spans of each split, of which train is the first.

    If text was cut out of train, `train` has the remaining pieces: (m, 3) rows of work, start and stop.
    """
    import pandas as pd

    parts = []
    for number, span in enumerate(shares.values()):
        rows = np.column_stack([np.arange(len(span)), span])
        if number == 0 and train is not None:  # a work without remaining pieces gets an empty row
            rows = np.concatenate([np.delete(rows[:, [0, 1, 1]], train[:, 0], axis=0), train])
        parts.append(np.column_stack([np.full(len(rows), number), rows]))
    joined = np.concatenate(parts)
    split, work, start, stop = joined[np.lexsort((joined[:, 0], joined[:, 2], joined[:, 1]))].T
    return pd.DataFrame({"split": np.array(list(shares))[split], "work": work, "start": start, "stop": stop})


# ---- strategies


def spans(table: "pd.DataFrame", split: Split) -> dict[str, Spans]:
    """Return the (n_works, 2) spans of each split in the joined text of all works, by name of the split.

    Every character belongs to exactly one split. A split with fraction 0 is absent. The strategies are:
    `tail`: each work begins in train, continues in val, and ends in test.
    `contiguous`: the works are joined, and the joined text is cut into train, val and test, as in the lecture notes.
    `by_work`: each work belongs to one split as a whole.
    `by_author`: all works of an author belong to the same split.
    """
    chars = table["chars"].to_numpy(np.int64)
    stops = np.cumsum(chars)
    starts = stops - chars
    # exact fractions, because 0.9 + 0.05 in floating point is not 0.95
    train, val = Fraction(str(split.train)), Fraction(str(split.val))
    ends = [train, min(train + val, Fraction(1)), Fraction(1)] if split.test > 0 else [train, Fraction(1)]
    match split.strategy:
        case "tail":
            edges = [starts + _cut(chars, end) for end in ends]
        case "contiguous":
            edges = [np.clip(_cut(stops[-1:], end), starts, stops) for end in ends]
        case _:
            split_of = _whole_works(table, split.strategy, ends)
            edges = [np.where(split_of <= number, stops, starts) for number in range(len(ends))]
    named = zip(SPLITS, [starts, *edges], edges, strict=False)
    return {name: np.stack([start, stop], axis=1) for name, start, stop in named if getattr(split, name) > 0}


def _cut(chars: Ints, share: Fraction) -> Ints:
    # Python's integers, because the product of a numerator and a number of characters can exceed 64 bits
    return np.array([n * share.numerator // share.denominator for n in chars.tolist()], np.int64)


def _whole_works(table: "pd.DataFrame", strategy: str, ends: list[Fraction]) -> Ints:
    """Assign each work as a whole to a split, with the strategy `by_work` or `by_author`."""
    # numbered in the order of the names, so that the order of the rows does not matter
    author, category, work = (
        table.groupby(names).ngroup().to_numpy().astype(np.int64)
        for names in (["author"], ["category"], ["category", "author", "work"])
    )
    units = author if strategy == "by_author" else work
    fractions = [float(end - start) for start, end in itertools.pairwise([Fraction(0), *ends])]
    if (n := len(set(units.tolist()))) < len(fractions):
        what = strategy.removeprefix("by_")
        raise ParamsError(
            f"params.yaml, split.strategy: '{strategy}' needs at least one {what} for each of the {len(fractions)} "
            f"splits, but the corpus has {n}; use 'tail', or more text."
        )
    return _stratify(table["chars"].to_numpy(np.int64), units, [author, category], fractions)


def _stratify(chars: Ints, units: Ints, labels: Sequence[Ints], fractions: Sequence[float]) -> Ints:
    """Assign works to splits so that each label has about the same fraction of the characters in all splits."""
    import pandas as pd

    # Add one label for each kind of label, with the same value for all works. These labels balance the lengths of the
    # splits, with as much weight as all other labels together.
    levels = [*labels, *[np.zeros_like(units)] * len(labels)]
    sizes = [int(level.max()) + 1 for level in levels]
    numbers = np.column_stack(levels) + np.cumsum([0, *sizes[:-1]])  # (n_works, n_levels) labels, each with a number
    weights = np.repeat(chars, len(levels)).reshape(numbers.shape)
    # (n_labels, n_splits) number of characters with a label in a split, minus the requested number
    surplus = -np.bincount(numbers.ravel(), weights.ravel())[:, None] * np.array(fractions)
    parts = []  # of each unit: its different labels, and the number of characters with each of them
    for works in np.split(np.argsort(units, kind="stable"), np.cumsum(np.bincount(units))[:-1]):
        codes, of_unit = pd.factorize(numbers[works].ravel())
        parts.append((of_unit, np.bincount(codes, weights[works].ravel())))
    longest_first = np.argsort(-np.bincount(units, chars), kind="stable").tolist()
    split_of = np.full(len(parts), -1)
    for _ in range(ROUNDS):
        before = split_of.copy()
        for unit in longest_first:
            of_unit, n = parts[unit]
            if split_of[unit] >= 0:
                surplus[of_unit, split_of[unit]] -= n
            current = surplus[of_unit]  # (n, n_splits)
            cost = (np.abs(current + n[:, None]) - np.abs(current)).sum(axis=0)  # (n_splits,)
            # choose the lowest cost and, among equal costs, the split that lacks the most characters
            split_of[unit] = np.lexsort((current.sum(axis=0), cost))[0]
            surplus[of_unit, split_of[unit]] += n
        if np.array_equal(split_of, before):
            break
    for empty in set(range(len(fractions))) - set(split_of.tolist()):
        movable = [unit for unit in longest_first if (split_of == split_of[unit]).sum() > 1]
        split_of[movable[-1]] = empty
    return split_of[units]
