"""Answers to requests: each row of a table is continued, scored, or both."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from bukva.base.errors import BukvaError
from bukva.config.request import BITS, CONTINUATION, MOST_CHARS, PROMPT, TEXT
from bukva.config.schema import Sample
from bukva.encoding.prompts import without_unknown
from bukva.serving.writer import Writer
from bukva.tokenizers.base import Tokenizer

FEWEST = {PROMPT: 1, TEXT: 2}  # ids; the first of a text has no score

Row = Mapping[str, str]  # texts by column


def answers(writer: Writer, table: pd.DataFrame, how: Sample) -> pd.DataFrame:
    """Continue prompts and score texts.

    Args:
        writer: has the model.
        table: columns prompt, text, or both; a row needs one of them.
        how: how to continue.

    Returns:
        A row for each: columns continuation, bits_per_char, or both. A cell is None if the row does not ask for it.

    Raises:
        BukvaError: a value is invalid; all are checked before the first answer.
    """
    if not {PROMPT, TEXT} & set(table.columns):
        raise BukvaError(f"The input has neither column {PROMPT}, which is continued, nor {TEXT}, which is scored.")
    if how.n_chars > MOST_CHARS:
        raise BukvaError(f"n_chars: {how.n_chars} is too many for a row of a request; use {MOST_CHARS} or fewer.")
    rows = [_checked(number, cells, writer.tokenizer, how) for number, cells in enumerate(table.to_dict("records"), 1)]
    found = pd.DataFrame([_answer(writer, row, how) for row in rows], index=table.index, dtype=object)
    return found.where(found.notna(), None)  # JSON has no NaN


def _checked(number: int, cells: Mapping[Hashable, Any], tokenizer: Tokenizer, how: Sample) -> Row:
    """The texts of a row; where rows have different columns, pandas fills the others with None or NaN."""
    row = {
        name: _readable(f"Row {number}, {name}", name, cells[name], tokenizer, how)
        for name in (PROMPT, TEXT)
        if isinstance(cells.get(name), str)
    }
    if not row:
        raise BukvaError(f"Row {number}: neither {PROMPT} nor {TEXT} is a string; one of them must be.")
    return row


def _readable(where: str, name: str, text: str, tokenizer: Tokenizer, how: Sample) -> str:
    """The text without characters outside the vocabulary."""
    readable = without_unknown(tokenizer, text, how.unknown)
    try:
        n_ids = len(tokenizer.encode(readable))
    except BukvaError as error:
        advice = "; use another text, or parameter unknown drop or replace" if how.unknown == "error" else ""
        raise BukvaError(f"{where}: {error}{advice}.") from None
    if n_ids < FEWEST[name]:
        raise BukvaError(f"{where}: {text!r} is too short; use a longer one.")
    return readable


def _answer(writer: Writer, row: Row, how: Sample) -> dict[str, str | float]:
    answer: dict[str, str | float] = {}
    if PROMPT in row:
        answer[CONTINUATION] = "".join(piece.text for piece in writer.write(row[PROMPT], how))
    if TEXT in row:
        _, *pieces = writer.score(row[TEXT])  # the first has no score: nothing comes before it
        answer[BITS] = sum(piece.bits or 0 for piece in pieces) / sum(len(piece.text) for piece in pieces)
    return answer
