"""Files of each type, made by tests."""

import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bukva.corpus.sources.formats import READERS
from bukva.corpus.sources.formats.base import BadTextError, Text, TextFile

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
XHTML = (
    '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title>нет</title>'
    '<script src="x.js"/></head><body>{}</body></html>'
)


def file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path: Path, encoding: str = "auto") -> tuple[str, tuple[str, str, str], list[tuple[str, str]]]:
    """Return the only text of a file; its title, author and year; and what is reported about it."""
    notes: list[tuple[str, str]] = []
    reader = READERS[path.name[path.name.index(".") :]]
    (text,) = reader(TextFile(path, f"books/{path.name}", encoding, note=lambda *note: notes.append(note)))
    assert text == Text(text.content, 0, text.title, text.author, "", text.year)
    return text.content, (text.title, text.author, text.year), notes


def error(path: Path, encoding: str = "auto") -> str:
    with pytest.raises(BadTextError) as raised:
        read(path, encoding)
    return str(raised.value)


def epub(
    path: Path,
    chapters: Mapping[str, str],
    order: Sequence[str] = (),
    package: str = "OPS/book.opf",
    metadata: str = "",
    missing: Collection[str] = (),
) -> Path:
    """An epub: chapters by name below the package's folder, of which some are missing, and the order of the spine."""
    names = list(chapters)
    items = "".join(
        f'<item id="c{number}" href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml" '
        f'properties="{name[: 3 * name.startswith("nav")]}"/>'
        for number, name in enumerate(names)
    )
    spine = "".join(f'<itemref idref="c{names.index(name)}"/>' for name in (order or names))
    opf = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        f'<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">{metadata}'
        "</metadata><manifest>"
        f'<item id="p" href="p.png" media-type="image/png"/>{items}</manifest><spine>{spine}</spine></package>'
    )
    folder = package.rpartition("/")[0]
    pages = {name: XHTML.format(body) for name, body in chapters.items() if name not in missing}
    parts = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER.format(package), package: opf}
    return zipped(path, parts | {f"{folder}/{name}".lstrip("/"): page for name, page in pages.items()})


def jsonl(path: Path, rows: Sequence[object]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def parquet(path: Path, columns: Mapping[str, object], row_group_size: int = 7) -> Path:
    pq.write_table(pa.table(dict(columns)), path, row_group_size=row_group_size)
    return path


def zipped(path: Path, parts: Mapping[str | zipfile.ZipInfo, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


def fb2(body: str, info: str = "", encoding: str = "utf-8", after: str = "") -> bytes:
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?>\n<FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0" '
        f'xmlns:l="http://www.w3.org/1999/xlink"><stylesheet type="text/css">p {{}}</stylesheet>'
        f"<description><title-info>{info}</title-info><publish-info><year>1999</year></publish-info></description>"
        f'<body>{body}</body>{after}<binary id="c.jpg" content-type="image/jpeg">/9j/4AAQ</binary></FictionBook>'
    )
    return text.encode(encoding)


def tei(text: str, header: str = "", root: str = "TEI", after: str = "") -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><?xml-model href="x.rng"?>\n<{root} xmlns="http://www.tei-c.org/ns/1.0">'
        f"<teiHeader><fileDesc>{header}</fileDesc></teiHeader>{after}<text>{text}</text></{root}>"
    ).encode()


WORD = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
DUBLIN_CORE = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:d="http://purl.org/dc/terms/"'
CORE = f"<c {DUBLIN_CORE}><dc:title>Нос</dc:title><dc:creator>Гоголь</dc:creator><d:created>2020-01-01</d:created></c>"
OFFICE = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "meta", "number", "svg")
)
META = (
    f"<m {OFFICE} {DUBLIN_CORE}><meta:initial-creator>Гоголь</meta:initial-creator><dc:creator>нет</dc:creator>"
    "<dc:title>Нос</dc:title></m>"
)


def docx(body: str, part: str = "word/document.xml", core: str = CORE) -> dict[str, str]:
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    document = f"{head}<w:document {WORD}><w:body>{body}</w:body></w:document>"
    return {"[Content_Types].xml": "<x/>", part: document} | ({"docProps/core.xml": core} if core else {})


def odt(body: str) -> dict[str, str]:
    styles = "<office:automatic-styles><number:text>нет</number:text></office:automatic-styles>"
    content = (
        f"<office:document-content {OFFICE}>{styles}<office:body><office:text>{body}</office:text></office:body>"
        "</office:document-content>"
    )
    return {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content, "meta.xml": META}
