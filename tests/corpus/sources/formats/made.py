"""Files of each type, made by tests."""

import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="{}" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
XHTML = (
    '<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><head><title>нет</title>'
    '<script src="x.js"/></head><body>{}</body></html>'
)


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
        f'<item id="c{number}" href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml"'
        + (' properties="nav"/>' if name.startswith("nav") else "/>")
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
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        file.writestr("META-INF/container.xml", CONTAINER.format(package))
        file.writestr(package, opf)
        for name, body in ((name, body) for name, body in chapters.items() if name not in missing):
            file.writestr(f"{folder}/{name}".lstrip("/"), XHTML.format(body))
    return path


def jsonl(path: Path, rows: Sequence[object]) -> Path:
    """A row on each line; text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def parquet(path: Path, columns: Mapping[str, object], row_group_size: int = 7) -> Path:
    """A table in groups of rows."""
    pq.write_table(pa.table(dict(columns)), path, row_group_size=row_group_size)
    return path
