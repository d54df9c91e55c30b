"""Whole texts of a collection, which the product only reads in pieces."""

from pathlib import Path

from bukva.corpus.collection import Document, read_table, read_texts


def texts_in(folder: Path) -> dict[Document, str]:
    """The text of every work, in the order of the table."""
    return {document: "".join(pieces) for document, pieces in read_texts(folder, read_table(folder))}
