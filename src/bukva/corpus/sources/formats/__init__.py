"""The types of files that are read, by their extension in small letters: one reader each."""

from pathlib import Path

from bukva.corpus.sources.archives import DAMAGED, is_zip, opened_zip
from bukva.corpus.sources.formats.base import Reader, read_plain
from bukva.corpus.sources.formats.epub import read_epub
from bukva.corpus.sources.formats.fb2 import read_fb2, read_fb2_zip
from bukva.corpus.sources.formats.markup import read_html, read_markdown
from bukva.corpus.sources.formats.office import read_docx, read_odt
from bukva.corpus.sources.formats.tables import read_jsonl, read_parquet
from bukva.corpus.sources.formats.tei import read_tei

READERS: dict[str, Reader] = {
    ".txt": read_plain,
    ".md": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".epub": read_epub,
    ".fb2": read_fb2,
    ".fb2.zip": read_fb2_zip,
    ".xml": read_tei,
    ".docx": read_docx,
    ".odt": read_odt,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".parquet": read_parquet,
}

# A zip with such a part is one book, whatever its name: it is not unpacked as an archive of texts.
PARTS: dict[str, Reader] = {
    "META-INF/container.xml": read_epub,
    "word/document.xml": read_docx,
    "word/document2.xml": read_docx,
    "content.xml": read_odt,
}


def reader_of_zip(path: Path) -> Reader | None:
    """Return the reader of a zip that is one book; None for any other file, also a damaged one."""
    if not is_zip(path):
        return None
    try:
        with opened_zip(path) as zipped:
            names = set(zipped.namelist())
    except DAMAGED:
        return None
    return next((reader for part, reader in PARTS.items() if part in names), None)
