"""Parquet: each row of the table is a text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bukva.corpus.sources.formats.base import Text, TextFile, UnreadableError
from bukva.corpus.sources.formats.table import NAMES, bad_row, text_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_ROWS = 64  # a row may be a book
BUFFER_BYTES = 1 << 20


def read_parquet(file: TextFile) -> Iterator[Text]:
    """The text of each row. A batch of rows is in memory, and a page of the file, which its writer chose.

    Raises:
        UnreadableError: the file is damaged or no Parquet, or has no such column of text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        raw = file.path.open("rb")
    except OSError as error:
        raise file.unreadable(error) from None
    try:
        with raw, pq.ParquetFile(raw, buffer_size=BUFFER_BYTES, pre_buffer=False) as table:
            yield from _texts(table, file)
    except (pa.ArrowException, OSError) as error:  # the library's own errors are of both kinds
        why = f"damaged, or not Parquet ({' '.join(str(error).split())[:100]})"
        raise UnreadableError(file.place, why, "write the file again") from None


def _texts(table: "pq.ParquetFile", file: TextFile) -> Iterator[Text]:
    import pyarrow as pa

    schema = table.schema_arrow
    if file.column not in schema.names:
        why, known = f"has no column {file.column!r}", ", ".join(schema.names) or "none"
        raise UnreadableError(file.place, why, f"set download.text_column to one of its columns ({known[:200]})")
    kind = schema.field(file.column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        why = f"column {file.column!r} has values of type {kind}"
        raise UnreadableError(file.place, why, "set download.text_column to a column of text")
    columns = [file.column, *(name for name in NAMES if name in schema.names and name != file.column)]
    rows = ((batch, place) for batch in _batches(table, columns) for place in range(batch.num_rows))
    for number, (batch, place) in enumerate(rows, start=1):
        yield _text(batch, place, number, file)


def _batches(table: "pq.ParquetFile", columns: list[str]) -> "Iterator[pa.RecordBatch]":
    return table.iter_batches(BATCH_ROWS, columns=columns, use_threads=False)


def _text(batch: "pa.RecordBatch", place: int, number: int, file: TextFile) -> Text:
    try:
        row: dict[str, Any] = {name: batch.column(name)[place].as_py() for name in batch.schema.names}
    except UnicodeDecodeError:
        return bad_row(file, number, "is not UTF-8")
    return text_of(row, number, file)
