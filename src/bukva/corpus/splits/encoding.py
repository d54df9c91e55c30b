"""Divide a corpus into splits, train a tokenizer, and encode the whole text as one array of ids."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bukva.config.schema import Split, Tokenize, Unknown
from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import progress_bar, with_progress
from bukva.corpus.splits.division import divide
from bukva.text.collection import Document, read_table, read_texts
from bukva.text.ids import Ids, save_ids
from bukva.text.splits import SHARES, Lengths
from bukva.text.tokenizers import TOKENIZERS, save_tokenizer
from bukva.text.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import pandas as pd

# Chinese text has about 10,000 symbols. The bigram has a weight for every pair of symbols: 1.6 GB for 20,000 symbols,
# and 160 GB for 200,000.
MAX_SYMBOLS = 20_000
REPLACEMENT = "\ufffd"  # Unicode's replacement character

# a function that yields each work of a corpus together with its text
Read = Callable[[], Iterable[tuple[Document, str]]]


class Encoded(NamedTuple):
    """Result of stage tokenize.

    tokenizer: the trained tokenizer.
    n_ids: total number of ids in all splits.
    n_repeated: number of characters that were cut out of the training split because they also occur in val or test.
    n_unknown: number of characters of val and test that were dropped or replaced because they do not occur in the
        training split.
    """

    tokenizer: Tokenizer
    n_ids: int
    n_repeated: int
    n_unknown: int


def tokenize(clean: Path, target: Path, tokenize: Tokenize, split: Split) -> Encoded:
    """Divide a corpus into splits, train a tokenizer, and encode the text.

    Three files are written. vocab.json contains the tokenizer, and ids.npy contains the ids of the text in its order.
    shares.parquet is the table of shares (see `divide`) with two more columns: `first_id`, the position of the first id
    of a share in ids.npy, and `ids`, the number of ids of the share.

    Args:
        clean: folder of the cleaned corpus.
        target: folder to write. It appears only when it is complete.
        tokenize: section `tokenize` of params.yaml.
        split: section `split` of params.yaml.

    Raises:
        BukvaError: the text cannot be divided (see `divide`), or the vocabulary is too large. With
            `tokenize.unknown=error`, also raised if val or test has a character that is not in the vocabulary.
    """
    table = read_table(clean)
    shares = divide(clean, table, split)
    with atomic_folder(target) as folder:
        read = functools.partial(read_texts, clean, table)  # called twice
        tokenizer = _train_tokenizer(read, shares, tokenize)
        parts = [np.empty(0, tokenizer.dtype)]
        lengths, n_unknown = _encode(read, shares, tokenizer, tokenize.unknown, parts.append)
        save_ids(folder / "ids.npy", np.concatenate(parts))
        shares.assign(first_id=lengths.cumsum() - lengths, ids=lengths).to_parquet(folder / SHARES, index=False)
        save_tokenizer(folder, tokenizer)
    return Encoded(tokenizer, int(lengths.sum()), int(table["chars"].sum()) - _chars(shares), n_unknown)


def _train_tokenizer(read: Read, shares: "pd.DataFrame", tokenize: Tokenize) -> Tokenizer:
    """Train the tokenizer on the training split or, with `tokenize.vocabulary=all`, on all works."""
    more: list[str] = []
    if (tokenize.kind, tokenize.vocabulary) == ("char", "all"):
        texts, n_chars = (text for _, text in read()), _chars(shares)
    else:
        train = shares[shares["split"] == "train"]
        texts, n_chars = (text for *_, text in _texts(read, train)), _chars(train)
        if (tokenize.kind, tokenize.unknown) == ("char", "replace"):
            more = [REPLACEMENT]
    shown = with_progress(texts, "tokenize: learning the vocabulary", n_chars)
    tokenizer = TOKENIZERS[tokenize.kind].train(itertools.chain(shown, more), tokenize.vocab_size)
    if len(tokenizer) > MAX_SYMBOLS:
        raise ParamsError(
            f"The text has {len(tokenizer):,} different characters, but a model supports at most {MAX_SYMBOLS:,}; use "
            "a text in fewer scripts, or check its encoding."
        )
    return tokenizer


def _encode(
    read: Read, shares: "pd.DataFrame", tokenizer: Tokenizer, unknown: Unknown, write: Callable[[Ids], object]
) -> tuple[Lengths, int]:
    """Encode every share (part of a work in one split), and pass the ids to `write`."""
    lengths, splits = np.zeros(len(shares), np.int64), shares["split"].to_numpy()
    begun, n_unknown = set[str](), 0
    with progress_bar("tokenize", _chars(shares)) as show:
        for row, document, text in _texts(read, shares):
            share, n = _readable(tokenizer, text, unknown)
            # a tokenizer with an alphabet gives every character its own id
            n_first = 0 if tokenizer.alphabet or splits[row] in begun else 1
            for part in (share[:n_first], share[n_first:]):
                ids = _ids(tokenizer, part, document)
                write(ids)
                lengths[row] += len(ids)
            if len(share):
                begun.add(splits[row])
            n_unknown += n
            show(len(text))
    return lengths, n_unknown


def _chars(shares: "pd.DataFrame") -> int:
    return int((shares["stop"] - shares["start"]).sum())


def _ids(tokenizer: Tokenizer, text: str, document: Document) -> Ids:
    try:
        return tokenizer.encode(text)
    except BukvaError as error:
        advice = "use tokenize.vocabulary=all, or tokenize.unknown=drop or replace"
        raise ParamsError(f"{document.name}: {error}; {advice}.") from None


def _readable(tokenizer: Tokenizer, text: str, unknown: Unknown) -> tuple[str, int]:
    """Drop or replace the characters of a text that are not in the alphabet of the tokenizer."""
    if unknown == "error" or tokenizer.alphabet is None:
        return text, 0
    lacking = set(text).difference(tokenizer.alphabet)
    instead = REPLACEMENT if unknown == "replace" else ""
    readable = text.translate({ord(char): instead for char in lacking}) if lacking else text
    return readable, sum(map(text.count, lacking))


def _texts(read: Read, shares: "pd.DataFrame") -> Iterator[tuple[int, Document, str]]:
    """Yield the row, the work and the text of each share that is not empty, in the order of the text."""
    starts, stops = shares["start"].tolist(), shares["stop"].tolist()
    works, at = shares["work"].to_numpy(), 0
    for number, (document, text) in enumerate(read()):
        for row in range(*np.searchsorted(works, [number, number + 1])):
            if starts[row] < stops[row]:
                yield row, document, text[starts[row] - at : stops[row] - at]
        at += len(text)
