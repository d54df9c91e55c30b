"""Books that are zips of their parts. Nothing is unpacked to the disk, and the bounds of archives hold."""

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
        kind: what it should be, for errors: `an epub`.

    Raises:
        BadTextError: the book, or what is read of it, is damaged.
        BukvaError: it exceeds a bound of archives.
    """
    try:
        with opened_zip(file.path) as book:
            yield book
    except OSError as error:
        raise file.unreadable(error) from None
    except (*DAMAGED, BadEncodingError) as error:
        why = f"damaged, or not {kind} ({' '.join(str(error).split())[:100]})"
        raise BadTextError(file.place, why, "get the file again") from None


def part(book: ZipFile, name: str) -> bytes:
    """Return a part of a book, which is parsed as a whole."""
    with book.open(name) as content:
        raw = content.read(MAX_WHOLE_BYTES + 1)
    if len(raw) > MAX_WHOLE_BYTES:
        raise ValueError(f"{name} has more than {MAX_WHOLE_BYTES} bytes")
    return raw
