"""From a collection of works to one array of ids."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bukva import params
from bukva.errors import BukvaError
from bukva.files import atomic_folder
from bukva.text.documents import read_table, read_texts
from bukva.text.splitting import Spans, spans
from bukva.text.tokenizers import CharTokenizer, write_ids

if TYPE_CHECKING:
    import pandas as pd


def tokenize(clean: Path, target: Path, tokenize: params.Tokenize, split: params.Split) -> tuple[CharTokenizer, int]:
    """Write the vocabulary and the ids of all works, in the order of the table and without gaps.

    Reading a work costs more than encoding it, so each is read once: while the vocabulary of all grows, a work is
    encoded by what there is of it, and renumbered when it is whole.

    Returns:
        The tokenizer and the number of ids.

    Raises:
        BukvaError: the vocabulary is that of train, and another part holds a character that train lacks.
    """
    table = read_table(clean)
    chars = table["chars"].to_numpy()
    fixed = tokenize.vocabulary == "train"
    tokenizer = CharTokenizer.of(_shares(clean, table, spans(chars, split)["train"]) if fixed else [])
    encoders = []  # of each work
    with atomic_folder(target) as folder, tempfile.TemporaryFile(dir=folder) as encoded:
        for document, text in read_texts(clean, table):
            try:
                ids = tokenizer.encode(text)
            except BukvaError as error:
                if fixed:
                    raise BukvaError(
                        f"{document.path}: {error}; tokenize.vocabulary all would do.\n{params.WAY_BACK}"
                    ) from None
                tokenizer = CharTokenizer.of(["".join(tokenizer.chars), text])
                ids = tokenizer.encode(text)
            encoders.append(tokenizer)
            ids.tofile(encoded)
        encoded.seek(0)
        renumbered = (
            tokenizer.encode("".join(encoder.chars)).take(np.fromfile(encoded, encoder.dtype, n))
            for encoder, n in zip(encoders, chars, strict=True)
        )
        n_ids = int(chars.sum())
        write_ids(folder / "ids.npy", tokenizer.dtype, n_ids, renumbered)
        tokenizer.save(folder / "vocab.json")
    return tokenizer, n_ids


def _shares(clean: Path, table: "pd.DataFrame", learned: Spans) -> Iterator[str]:
    """The share of every work that `learned` gives it, counted in the joined corpus."""
    start = 0
    for (_, text), (first, stop) in zip(read_texts(clean, table), learned, strict=True):
        yield text[first - start : stop - start]
        start += len(text)
