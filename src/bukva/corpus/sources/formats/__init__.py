"""The types of files that are read, one reader each."""

from collections.abc import Collection

from bukva.corpus.sources.formats.base import Reader, read_plain
from bukva.corpus.sources.formats.epub import read_epub
from bukva.corpus.sources.formats.markup import read_html, read_markdown
from bukva.corpus.sources.formats.tables import read_jsonl, read_parquet

READERS: dict[str, Reader] = {
    ".txt": read_plain,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".epub": read_epub,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".parquet": read_parquet,
}


def reader_of(extension: str, as_text: Collection[str] = ()) -> Reader | None:
    """The reader of a file type, whatever the case of its letters; None if the type is not read.

    Args:
        extension: with its dot.
        as_text: extensions that are read as plain text, also one of READERS: the source of a web page is text, too.
    """
    if extension.lower() in {name.lower() for name in as_text}:
        return read_plain
    return READERS.get(extension.lower())
