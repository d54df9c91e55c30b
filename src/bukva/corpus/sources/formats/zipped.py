"""Open books that are zip files. Nothing is unpacked to disk, and the limits of archives.py apply."""

import contextlib
from collections.abc import Iterator
from zipfile import ZipFile

from bukva.corpus.sources.archives import DAMAGED, opened_zip
from bukva.corpus.sources.formats.base import MAX_WHOLE_BYTES, BadTextError, TextFile
from bukva.corpus.sources.formats.encodings import BadEncodingError


@contextlib.contextmanager
def opened_book(file: TextFile, kind: str) -> Iterator[ZipFile]:
    """Open a book to read its parts.

    Args:
        file: the zip.
        kind: its expected type with an article, for errors: `an epub`.

    Raises:
        BadTextError: the zip is damaged, or the code that reads the book finds a damaged part.
        BukvaError: the zip exceeds a limit of archives.
    """
    try:
        with opened_zip(file.path) as book:
            yield book
    except OSError as error:
        raise file.unreadable(error) from None
    except (*DAMAGED, BadEncodingError) as error:
        why = f"damaged, or not {kind} ({' '.join(str(error).split())[:100]})"
        raise BadTextError(file.display_name, why, "Get the file again") from None


def read_part(book: ZipFile, name: str) -> bytes:
    """Read a part of a book into memory.

    Raises:
        ValueError: the part is larger than MAX_WHOLE_BYTES.
    """
    with book.open(name) as content:
        raw = content.read(MAX_WHOLE_BYTES + 1)
    if len(raw) > MAX_WHOLE_BYTES:
        raise ValueError(f"{name} has more than {MAX_WHOLE_BYTES} bytes")
    return raw
