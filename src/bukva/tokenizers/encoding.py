"""From a collection of works to one array of ids."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_folder
from bukva.base.ids import Ids, write_ids
from bukva.base.text import alphabet, code_points, from_code_points
from bukva.config import schema
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import read_table, read_texts
from bukva.corpus.splits import Spans, spans
from bukva.tokenizers import save_tokenizer, tokenizer_class
from bukva.tokenizers.base import Tokenizer
from bukva.tokenizers.char import CharTokenizer

if TYPE_CHECKING:
    import pandas as pd

# Chinese needs about 10,000. The bigram has a number for every pair: 1.6 GB here, 160 GB for ten times as many.
MAX_SYMBOLS = 20_000
PIECE_CHARS = 1 << 20


def tokenize(clean: Path, target: Path, tokenize: schema.Tokenize, split: schema.Split) -> tuple[Tokenizer, int]:
    """Write the vocabulary and the ids of all works, in the order of the table and without gaps.

    Returns:
        The tokenizer and the number of ids.

    Raises:
        BukvaError: the vocabulary is that of train, and another split contains a character that train lacks; or the
            vocabulary is too large.
    """
    table = read_table(clean)
    n_ids = int(table["chars"].sum())
    with atomic_folder(target) as folder, tempfile.TemporaryFile(dir=folder) as scratch:
        tokenizer: Tokenizer
        if tokenize.vocabulary == "train":
            train = _shares(clean, table, spans(table["chars"], split)["train"])
            tokenizer = tokenizer_class(tokenize.kind).train(train)
            _check_symbols(len(tokenizer))
            ids = _encoded(clean, table, tokenizer)
        else:
            tokenizer, ids = _encoded_by_all(clean, table, scratch)
        write_ids(folder / "ids.npy", tokenizer.dtype, n_ids, ids)
        save_tokenizer(folder / "vocab.json", tokenizer)
    return tokenizer, n_ids


def _encoded(clean: Path, table: "pd.DataFrame", tokenizer: Tokenizer) -> Iterator[Ids]:
    """The ids of each work."""
    for document, text in read_texts(clean, table):
        try:
            yield tokenizer.encode(text)
        except BukvaError as error:
            raise BukvaError(f"{document.path}: {error}; use tokenize.vocabulary all.\n{WAY_BACK}") from None


def _encoded_by_all(clean: Path, table: "pd.DataFrame", scratch: IO[bytes]) -> tuple[CharTokenizer, Iterator[Ids]]:
    """The tokenizer of all works, and the ids of each.

    Reading a work costs more than encoding it, so each is read once: characters are numbered in the order they come,
    and renumbered when all are known.
    """
    numbers = np.zeros(sys.maxunicode + 1, np.uint16)  # of code points; 0: not seen yet
    seen = ""
    for piece in _pieces(clean, table):
        codes = code_points(piece)
        if len(unseen := codes[numbers.take(codes) == 0]):
            new = alphabet(from_code_points(unseen))
            _check_symbols(len(seen) + len(new))
            numbers[code_points(new)] = np.arange(len(seen), len(seen) + len(new)) + 1
            seen += new
        scratch.write(numbers.take(codes).data)  # tofile raises without the reason when a disk is full
    tokenizer = CharTokenizer(sorted(seen))
    return tokenizer, _renumbered(scratch, tokenizer.encode(seen[:1] + seen))  # number 0 is unused


def _pieces(clean: Path, table: "pd.DataFrame") -> Iterator[str]:
    """The works, cut where they are long: a work's code points take ten times its memory while they are looked up."""
    for _, text in read_texts(clean, table):
        for start in range(0, len(text), PIECE_CHARS):
            yield text[start : start + PIECE_CHARS]


def _renumbered(scratch: IO[bytes], ids: Ids) -> Iterator[Ids]:
    scratch.seek(0)
    while len(numbers := np.fromfile(scratch, np.uint16, PIECE_CHARS)):
        yield ids.take(numbers)


def _check_symbols(n_symbols: int) -> None:
    if n_symbols > MAX_SYMBOLS:
        raise BukvaError(
            f"The text has at least {n_symbols:,} different characters, but a model takes {MAX_SYMBOLS:,} at most; use "
            f"a text in fewer scripts, or check its encoding.\n{WAY_BACK}"
        )


def _shares(clean: Path, table: "pd.DataFrame", learned: Spans) -> Iterator[str]:
    """The share of every work that `learned` gives it, counted in the joined corpus."""
    start = 0
    for (_, text), (first, stop) in zip(read_texts(clean, table), learned, strict=True):
        yield text[first - start : stop - start]
        start += len(text)
