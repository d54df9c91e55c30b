"""From a collection of works to one array of ids."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bukva import params
from bukva.errors import BukvaError
from bukva.files import atomic_folder
from bukva.text.documents import read_table, read_texts
from bukva.text.splitting import Spans, spans
from bukva.text.tokenizers import CharTokenizer


def tokenize(clean: Path, target: Path, tokenize: params.Tokenize, split: params.Split) -> tuple[CharTokenizer, int]:
    """Write the vocabulary and the ids of all works, in the order of the table and without gaps.

    Returns:
        The tokenizer and the number of ids.

    Raises:
        BukvaError: the vocabulary is that of train, and another part holds a character that train lacks.
    """
    table = read_table(clean)
    chars = table["chars"].to_numpy()
    learned = spans(chars, split)["train"] if tokenize.vocabulary == "train" else None
    tokenizer = CharTokenizer.of(_shares(clean, learned))
    with atomic_folder(target) as folder:
        tokenizer.save(folder / "vocab.json")
        ids = np.lib.format.open_memmap(folder / "ids.npy", "w+", tokenizer.dtype, (int(chars.sum()),))
        start = 0
        for document, text in read_texts(clean, table):
            try:
                ids[start : start + len(text)] = tokenizer.encode(text)
            except BukvaError as error:
                raise BukvaError(
                    f"{document.path}: {error}; tokenize.vocabulary all would do.\n{params.WAY_BACK}"
                ) from None
            start += len(text)
        ids.flush()
    return tokenizer, start


def _shares(clean: Path, learned: Spans | None) -> Iterator[str]:
    """The text of every work: all of it, or the share that `learned` gives it, counted in the joined corpus."""
    start = 0
    for index, (_, text) in enumerate(read_texts(clean, read_table(clean))):
        if learned is None:
            yield text
        else:
            first, stop = learned[index] - start
            yield text[first:stop]
        start += len(text)
