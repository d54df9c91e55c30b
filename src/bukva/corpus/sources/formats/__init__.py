"""Map file types to the functions that read such files, or to commands that convert them."""

import contextlib
import shlex
from pathlib import Path, PurePosixPath

from bukva.core.errors import BukvaError
from bukva.corpus.sources.archives import DAMAGED, opened_zip, signature
from bukva.corpus.sources.formats.base import Reader, read_plain
from bukva.corpus.sources.formats.books import read_docx, read_epub, read_fb2, read_odt, read_tei
from bukva.corpus.sources.formats.pages import read_html, read_markdown, read_subtitles
from bukva.corpus.sources.formats.tables import read_csv, read_json, read_jsonl, read_parquet

# extension in lower case -> reader for files of this type
READERS: dict[str, Reader] = {
    ".txt": read_plain,
    **dict.fromkeys([".md", ".markdown"], read_markdown),
    **dict.fromkeys([".html", ".htm", ".xhtml"], read_html),
    ".epub": read_epub,
    **dict.fromkeys([".fb2", ".fb2.zip"], read_fb2),
    ".xml": read_tei,
    ".docx": read_docx,
    ".odt": read_odt,
    **dict.fromkeys([".srt", ".vtt"], read_subtitles),
    **dict.fromkeys([".csv", ".tsv"], read_csv),
    ".json": read_json,
    **dict.fromkeys([".jsonl", ".ndjson"], read_jsonl),
    ".parquet": read_parquet,
}

TO_DOCX = "soffice --headless --convert-to docx {file}"
TO_CSV = "soffice --headless --convert-to 'csv:Text - txt - csv (StarCalc):44,34,76' {file}"  # comma, quote, UTF-8
# extension in lower case -> command that converts a file of this type to a type that can be read
CONVERSIONS = {
    ".pdf": "pdftotext -enc UTF-8 {file} {txt}",
    ".djvu": "djvutxt {file} {txt}",
    **dict.fromkeys([".doc", ".rtf"], TO_DOCX),
    **dict.fromkeys([".xls", ".xlsx", ".ods"], TO_CSV),
    **dict.fromkeys([".mobi", ".azw", ".azw3", ".lit"], "ebook-convert {file} {epub}"),
    **dict.fromkeys([".tex", ".rst", ".org"], "pandoc --to plain --wrap none -o {txt} {file}"),
    **dict.fromkeys([".ass", ".ssa"], "ffmpeg -i {file} {srt}"),
    **dict.fromkeys([".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst"], "tar -xf {file}"),
    ".zip": "unzip {file}",
    ".gz": "gunzip --keep {file}",
    ".bz2": "bunzip2 --keep {file}",
    ".xz": "unxz --keep {file}",
    ".zst": "unzstd {file}",
    ".7z": "7z x {file}",
    ".rar": "unar {file}",
}


def conversion(file: str) -> str:
    """Return the shell command that converts `file` to a type that can be read, or "" if no command is known."""
    path = PurePosixPath(file)
    ends = "".join(path.suffixes[-2:]).lower(), path.suffix.lower()
    command = next((CONVERSIONS[end] for end in ends if end in CONVERSIONS), "")
    results = {end: shlex.quote(str(path.with_suffix(f".{end}"))) for end in ("txt", "epub", "srt")}
    return command.format(file=shlex.quote(file), **results)


# A zip that contains one of these files is a single book or document of the type with this extension.
PARTS = {
    "META-INF/container.xml": ".epub",
    "word/document.xml": ".docx",
    "word/document2.xml": ".docx",
    "content.xml": ".odt",
}


def real_extension(path: Path) -> str:
    """Return the extension of the type that the content of a file shows, or "" if it is unknown or a damaged zip."""
    with contextlib.suppress(*DAMAGED, BukvaError, OSError):
        if (extension := signature(path)) != ".zip":
            return extension
        with opened_zip(path) as zipped:
            names = zipped.namelist()
        return next((extension for part, extension in PARTS.items() if part in names), ".zip")
    return ""
