"""The types of files that are read, by their extension in small letters: one reader each."""

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
