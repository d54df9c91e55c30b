"""Plain text: a file is one text, as it is."""

from collections.abc import Iterator

from bukva.corpus.sources.formats.base import Text, TextFile


def read_plain(file: TextFile) -> Iterator[Text]:
    """The text of a file of any size; it is never in memory as a whole."""
    yield Text(file.pieces())
