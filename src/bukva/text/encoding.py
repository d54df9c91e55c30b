"""From a collection of works to one array of ids."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from bukva import params
from bukva.errors import BukvaError
from bukva.files import atomic_folder
from bukva.text.documents import read_table, read_texts
from bukva.text.splitting import Spans, spans
from bukva.text.tokenizers import CharTokenizer, Ids, alphabet, code_points, from_code_points, write_ids

if TYPE_CHECKING:
    import pandas as pd

# Chinese needs some 10,000. The bigram has a number for every pair: 1.6 GB here, and 160 GB for ten times as many.
MAX_SYMBOLS = 20_000
PIECE_CHARS = 1 << 20


def tokenize(clean: Path, target: Path, tokenize: params.Tokenize, split: params.Split) -> tuple[CharTokenizer, int]:
    """Write the vocabulary and the ids of all works, in the order of the table and without gaps.

    Returns:
        The tokenizer and the number of ids.

    Raises:
        BukvaError: the vocabulary is that of train, and another part holds a character that train lacks; or the
            vocabulary is too large.
    """
    table = read_table(clean)
    n_ids = int(table["chars"].sum())
    with atomic_folder(target) as folder, tempfile.TemporaryFile(dir=folder) as scratch:
        if tokenize.vocabulary == "train":
            tokenizer = CharTokenizer.of(_shares(clean, table, spans(table["chars"], split)["train"]))
            _refuse_many(len(tokenizer))
            ids = _encoded(clean, table, tokenizer)
        else:
            tokenizer, ids = _encoded_by_all(clean, table, scratch)
        write_ids(folder / "ids.npy", tokenizer.dtype, n_ids, ids)
        tokenizer.save(folder / "vocab.json")
    return tokenizer, n_ids


def _encoded(clean: Path, table: "pd.DataFrame", tokenizer: CharTokenizer) -> Iterator[Ids]:
    """The ids of each work."""
    for document, text in read_texts(clean, table):
        try:
            yield tokenizer.encode(text)
        except BukvaError as error:
            raise BukvaError(
                f"{document.path}: {error}; tokenize.vocabulary all would do.\n{params.WAY_BACK}"
            ) from None


def _encoded_by_all(clean: Path, table: "pd.DataFrame", scratch: IO[bytes]) -> tuple[CharTokenizer, Iterator[Ids]]:
    """The tokenizer of all works, and the ids of each.

    Reading a work costs more than encoding it, so each is read once: characters are numbered as they come, and
    renumbered when all are known.
    """
    numbers = np.zeros(sys.maxunicode + 1, np.uint16)  # of code points; 0: not met yet
    met = ""
    for piece in _pieces(clean, table):
        codes = code_points(piece)
        if len(unmet := codes[numbers.take(codes) == 0]):
            new = alphabet(from_code_points(unmet))
            _refuse_many(len(met) + len(new))
            numbers[code_points(new)] = np.arange(len(met), len(met) + len(new)) + 1
            met += new
        scratch.write(numbers.take(codes).data)  # tofile would not say why a disk takes no more
    tokenizer = CharTokenizer(sorted(met))
    return tokenizer, _renumbered(scratch, tokenizer.encode(met[:1] + met))  # the first number is nobody's


def _pieces(clean: Path, table: "pd.DataFrame") -> Iterator[str]:
    """The works, cut where they are long: a work's code points take ten times its memory while they are looked up."""
    for _, text in read_texts(clean, table):
        for start in range(0, len(text), PIECE_CHARS):
            yield text[start : start + PIECE_CHARS]


def _renumbered(scratch: IO[bytes], ids: Ids) -> Iterator[Ids]:
    scratch.seek(0)
    while len(numbers := np.fromfile(scratch, np.uint16, PIECE_CHARS)):
        yield ids.take(numbers)


def _refuse_many(n_symbols: int) -> None:
    if n_symbols > MAX_SYMBOLS:
        raise BukvaError(
            f"The text has {n_symbols:,} different characters or more, and a model takes {MAX_SYMBOLS:,} at most; "
            f"a text in fewer scripts, or in its right encoding, would do.\n{params.WAY_BACK}"
        )


def _shares(clean: Path, table: "pd.DataFrame", learned: Spans) -> Iterator[str]:
    """The share of every work that `learned` gives it, counted in the joined corpus."""
    start = 0
    for (_, text), (first, stop) in zip(read_texts(clean, table), learned, strict=True):
        yield text[first - start : stop - start]
        start += len(text)
