"""Open books and documents that are zip files. Nothing is unpacked to disk, and the limits of archives.py apply."""

import contextlib
from collections.abc import Iterator
from zipfile import ZipFile

from bukva.corpus.sources.archives import DAMAGED, opened_zip
from bukva.corpus.sources.formats.base import MAX_WHOLE_BYTES, BadTextError, TextFile
from bukva.corpus.sources.formats.encodings import BadEncodingError


@contextlib.contextmanager
def opened_book(file: TextFile, kind: str) -> Iterator[ZipFile]:
    """Open a book that is a zip file. Errors from reading the zip are raised again as errors that name the book.

    Args:
        file: the book.
        kind: expected type of the book with an article, such as `an epub`, for errors.

    Raises:
        BadTextError: the zip cannot be read or is damaged. An exception of DAMAGED (such as ValueError) or a
            BadEncodingError in the `with` block is also raised as a BadTextError.
        BukvaError: the zip exceeds a limit of archives.py.
    """
    try:
        with opened_zip(file.path) as book:
            yield book
    except OSError as error:
        raise file.unreadable(error) from None
    except (*DAMAGED, BadEncodingError) as error:
        why = f"is damaged, or is not {kind} ({' '.join(str(error).split())[:100]})"
        raise BadTextError(file.display_name, why, "Get the file again") from None


def read_part(book: ZipFile, name: str) -> bytes:
    """Return the content of the file `name` in the zip `book`.

    Raises:
        ValueError: the file `name` is larger than MAX_WHOLE_BYTES.
    """
    with book.open(name) as content:
        raw = content.read(MAX_WHOLE_BYTES + 1)
    if len(raw) > MAX_WHOLE_BYTES:
        raise ValueError(f"{name} has more than {MAX_WHOLE_BYTES} bytes")
    return raw
