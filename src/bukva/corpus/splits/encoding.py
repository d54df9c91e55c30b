"""Divide a corpus into splits, train a tokenizer, and encode the whole text as one array of ids."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bukva.core.errors import BukvaError, ParamsError
from bukva.core.files import atomic_folder
from bukva.core.progress import progress_bar, with_progress
from bukva.core.schema import Split, Tokenize
from bukva.corpus.splits.division import divide
from bukva.text.collection import documents, read_table, read_text
from bukva.text.ids import save_ids
from bukva.text.splits import SHARES
from bukva.text.tokenizers import TOKENIZERS, save_tokenizer
from bukva.text.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import pandas as pd

# Chinese text has about 10,000 symbols. The bigram has a weight for every pair of symbols: 1.6 GB for 20,000 symbols,
# and 160 GB for 200,000.
MAX_SYMBOLS = 20_000


class Encoded(NamedTuple):
    """Result of stage tokenize."""

    tokenizer: Tokenizer
    n_ids: int
    n_repeated: int  # characters that were cut out of train because they also occur in val or test


def tokenize(clean: Path, target: Path, tokenize: Tokenize, split: Split) -> Encoded:
    """Divide the corpus in the folder `clean` into splits, train a tokenizer, and encode the text.

    Three files are written to the folder `target`. vocab.json contains the tokenizer, and ids.npy contains the ids of
    the text in its order. shares.parquet is the table of shares (see `divide`) with two more columns: `first_id`, the
    position of the first id of a share in ids.npy, and `ids`, the number of ids of the share.

    Raises:
        BukvaError: the text cannot be divided (see `divide`), or the vocabulary is too large, or it
            lacks a character of val or test.
    """
    table, text = read_table(clean), read_text(clean)
    shares = divide(clean, table, split)
    tokenizer = _train_tokenizer(text, shares, tokenize)
    ids, lengths = [np.empty(0, tokenizer.dtype)], np.zeros(len(shares), np.int64)
    begun = set[str]()
    with progress_bar("tokenize", _chars(shares)) as show:
        for row, (name, work, start, stop) in enumerate(shares.itertuples(index=False)):
            share = text[start:stop]
            # The first character of a split shares no id with the second one. An alphabet gives each its own id anyway.
            n_first = 0 if tokenizer.alphabet or name in begun else 1
            try:
                parts = [tokenizer.encode(part) for part in (share[:n_first], share[n_first:])]
            except BukvaError as error:
                document = list(documents(table))[work]
                raise ParamsError(f"{document.name}: {error}; use tokenize.vocabulary=all.") from None
            ids += parts
            lengths[row] = sum(map(len, parts))
            if share:
                begun.add(name)
            show(stop - start)
    with atomic_folder(target) as folder:
        save_ids(folder / "ids.npy", np.concatenate(ids))
        shares.assign(first_id=lengths.cumsum() - lengths, ids=lengths).to_parquet(folder / SHARES, index=False)
        save_tokenizer(folder, tokenizer)
    return Encoded(tokenizer, int(lengths.sum()), len(text) - _chars(shares))


def _train_tokenizer(text: str, shares: "pd.DataFrame", tokenize: Tokenize) -> Tokenizer:
    """Train the tokenizer on the training split or, with `tokenize.vocabulary=all`, on all works."""
    texts = [text]
    if (tokenize.kind, tokenize.vocabulary) != ("char", "all"):
        train = shares.loc[shares["split"] == "train", ["start", "stop"]]
        texts = [text[start:stop] for start, stop in train.itertuples(index=False)]
    shown = with_progress(texts, "tokenize: learning the vocabulary", sum(map(len, texts)))
    tokenizer = TOKENIZERS[tokenize.kind].train(shown, tokenize.vocab_size)
    if len(tokenizer) > MAX_SYMBOLS:
        raise ParamsError(
            f"The text has {len(tokenizer):,} different characters, but a model supports at most {MAX_SYMBOLS:,}; use "
            "a text in fewer scripts, or check its encoding."
        )
    return tokenizer


def _chars(shares: "pd.DataFrame") -> int:
    return int((shares["stop"] - shares["start"]).sum())
