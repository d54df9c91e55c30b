"""Answers to requests: each row of a table is continued, scored, or both."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from bukva.config.schema import BITS, CONTINUATION, MOST_CHARS, PROMPT, TEXT, Sample
from bukva.core.errors import BukvaError
from bukva.serving.writer import Writer

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
    rows = [_checked(number, cells, writer, how) for number, cells in enumerate(table.to_dict("records"), 1)]
    found = pd.DataFrame([_answer(writer, row, how) for row in rows], index=table.index, dtype=object)
    return found.where(found.notna(), None)  # JSON has no NaN


def _checked(number: int, cells: Mapping[Hashable, Any], writer: Writer, how: Sample) -> Row:
    """The texts of a row; where rows have different columns, pandas fills the others with None or NaN."""
    texts = {name: cells[name] for name in (PROMPT, TEXT) if isinstance(cells.get(name), str)}
    if not texts:
        raise BukvaError(f"Row {number}: neither {PROMPT} nor {TEXT} is a string; one of them must be.")
    try:
        return {name: writer.checked(name, text, how.unknown) for name, text in texts.items()}
    except BukvaError as error:
        raise BukvaError(f"Row {number}, {error}") from None


def _answer(writer: Writer, row: Row, how: Sample) -> dict[str, str | float]:
    answer: dict[str, str | float] = {}
    if PROMPT in row:
        answer[CONTINUATION] = writer.continuation(row[PROMPT], how)
    if TEXT in row:
        answer[BITS] = writer.bits_per_char(row[TEXT])
    return answer
