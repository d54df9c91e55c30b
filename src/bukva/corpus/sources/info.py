"""info.csv: the years of the works in its folder. It is advice that may be wrong, so no error in it stops a stage."""

import csv
import unicodedata

INFO = "info.csv"


def read_info(raw: bytes) -> tuple[dict[str, str | None], int]:
    """The bytes of an info.csv -> the years by the name of the work, and the number of unreadable rows.

    Names are in Unicode's form NFC. Bytes that are not UTF-8 become a name that no work has.
    """
    lines = [line for line in raw.decode("utf-8-sig", errors="replace").splitlines() if line.strip()]
    header, *rows = [_cells(line) for line in lines] or [[]]
    if not {"name", "year"} <= set(header):
        return {}, len(lines)
    entries = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    return {nfc(entry["name"]): entry["year"] or None for entry in entries}, len(rows) - len(entries)


def nfc(name: str) -> str:
    """A name in Unicode's form NFC; macOS may write й in a file name as two characters."""
    return unicodedata.normalize("NFC", name)


def _cells(line: str) -> list[str]:
    """The cells of one row, or an empty list; each row is parsed alone, so an unclosed quote spoils no other row."""
    try:
        return [cell.strip() for cell in next(csv.reader([line]))]
    except csv.Error:
        return []
