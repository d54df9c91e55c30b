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
from bukva.base.text import PIECE_CHARS, code_points, from_code_points, pieces
from bukva.config import schema
from bukva.config.messages import WAY_BACK
from bukva.corpus.collection import Document, read_table, read_texts
from bukva.corpus.splits import Lengths, Spans, save_lengths
from bukva.corpus.strategies import spans
from bukva.tokenizers import save_tokenizer, tokenizer_class
from bukva.tokenizers.base import Tokenizer
from bukva.tokenizers.char import CharTokenizer

if TYPE_CHECKING:
    import pandas as pd

# Chinese needs about 10,000. The bigram has a number for every pair: 1.6 GB here, 160 GB for ten times as many.
MAX_SYMBOLS = 20_000


def tokenize(clean: Path, target: Path, tokenize: schema.Tokenize, split: schema.Split) -> tuple[Tokenizer, int]:
    """Write the vocabulary and the ids of all works, in the order of the table and without gaps.

    Returns:
        The tokenizer and the number of ids.

    Raises:
        BukvaError: the vocabulary is that of train, and another split contains a character that train lacks; or the
            vocabulary is too large.
    """
    table = read_table(clean)
    with atomic_folder(target) as folder, tempfile.TemporaryFile(dir=folder) as scratch:
        tokenizer: Tokenizer
        if (tokenize.kind, tokenize.vocabulary) == ("char", "all"):
            tokenizer, pieces = _encoded_by_all(clean, table, scratch)
            n_ids = int(table["chars"].sum())
        else:
            shares = spans(table, split)
            chosen = {"train": shares["train"]} if tokenize.vocabulary == "train" else {"all": _whole(table)}
            learned = (text for *_, text in _shares(clean, table, chosen))
            tokenizer = tokenizer_class(tokenize.kind).train(learned)
            _check_symbols(len(tokenizer))
            lengths = _encode_shares(clean, table, shares, tokenizer, scratch)
            save_lengths(folder, shares, lengths)
            n_ids, pieces = int(lengths.sum()), _read_pieces(scratch, tokenizer.dtype)
        write_ids(folder / "ids.npy", tokenizer.dtype, n_ids, pieces)
        save_tokenizer(folder / "vocab.json", tokenizer)
    return tokenizer, n_ids


def _encode_shares(
    clean: Path, table: "pd.DataFrame", shares: dict[str, Spans], tokenizer: Tokenizer, scratch: IO[bytes]
) -> Lengths:
    """Write the ids of every share of every work, each encoded by itself so that no id crosses a split.

    Returns:
        (n_works, n_splits) the numbers of ids.
    """
    lengths = np.zeros((len(table), len(shares)), np.int64)
    for number, column, document, text in _shares(clean, table, shares):
        ids = _encoded(tokenizer, text, document)
        scratch.write(ids.data)  # tofile raises without the reason when a disk is full
        lengths[number, column] += len(ids)
    return lengths


def _encoded(tokenizer: Tokenizer, text: str, document: Document) -> Ids:
    try:
        return tokenizer.encode(text)
    except BukvaError as error:
        raise BukvaError(f"{document.name}: {error}; use tokenize.vocabulary all.\n{WAY_BACK}") from None


def _read_pieces(scratch: IO[bytes], dtype: np.dtype[np.unsignedinteger]) -> Iterator[Ids]:
    scratch.seek(0)
    while len(ids := np.fromfile(scratch, dtype, PIECE_CHARS)):
        yield ids


def _encoded_by_all(clean: Path, table: "pd.DataFrame", scratch: IO[bytes]) -> tuple[CharTokenizer, Iterator[Ids]]:
    """The tokenizer of all works, and the ids of each.

    Reading a work costs more than encoding it, so each is read once: characters are numbered in the order they come,
    and renumbered when all are known.
    """
    numbers = np.zeros(sys.maxunicode + 1, np.uint16)  # of code points; 0: not seen yet
    seen = ""
    for piece in _pieces(clean, table):
        codes = code_points(piece)
        numbered = numbers.take(codes)
        if numbered.min() == 0:
            new = np.unique(codes[numbered == 0])
            _check_symbols(len(seen) + len(new))
            numbers[new] = np.arange(len(seen), len(seen) + len(new)) + 1
            seen += from_code_points(new)
            numbered = numbers.take(codes)
        scratch.write(numbered.data)  # tofile raises without the reason when a disk is full
    tokenizer = CharTokenizer(sorted(seen))
    return tokenizer, _renumbered(scratch, tokenizer.encode(seen[:1] + seen))  # number 0 is unused


def _pieces(clean: Path, table: "pd.DataFrame") -> Iterator[str]:
    for _, text in read_texts(clean, table):
        for piece in text:
            yield from pieces(piece)


def _renumbered(scratch: IO[bytes], ids: Ids) -> Iterator[Ids]:
    for numbers in _read_pieces(scratch, np.dtype(np.uint16)):
        yield ids.take(numbers)


def _check_symbols(n_symbols: int) -> None:
    if n_symbols > MAX_SYMBOLS:
        raise BukvaError(
            f"The text has at least {n_symbols:,} different characters, but a model takes {MAX_SYMBOLS:,} at most; use "
            f"a text in fewer scripts, or check its encoding.\n{WAY_BACK}"
        )


def _whole(table: "pd.DataFrame") -> Spans:
    """Every work from its start to its stop, counted in the joined corpus."""
    stops = table["chars"].to_numpy(np.int64).cumsum()
    return np.stack([stops - table["chars"], stops], axis=1)


def _shares(clean: Path, table: "pd.DataFrame", shares: dict[str, Spans]) -> Iterator[tuple[int, int, Document, str]]:
    """The shares of every work in pieces: the number of the work, that of the split, the work, and the text."""
    start = 0
    for number, (document, text) in enumerate(read_texts(clean, table)):
        for piece in text:
            for column, span in enumerate(shares.values()):
                first, stop = np.clip(span[number] - start, 0, len(piece))
                if first < stop:
                    yield number, column, document, piece[first:stop]
            start += len(piece)
