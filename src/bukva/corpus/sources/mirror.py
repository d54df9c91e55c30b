"""Files of registered corpora, taken from a mirror instead of the network where BUKVA_MIRROR names one."""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from bukva.core.files import resolve, sha256
from bukva.core.redact import redact_url
from bukva.corpus.sources.fetching import OnBytes, UnreachableError, check_digest, fetch

OnNote = Callable[[str], None]
"""Called with a sentence for the user that is not an error."""


def obtain(url: str, name: str, folder: Path, on_bytes: OnBytes, note: OnNote, digest: str = "") -> Path:
    """The path of the file `name`: in the mirror if that is a folder, else downloaded into `folder`.

    BUKVA_MIRROR names a folder, or the address of one. If the mirror does not have the file, `note` is called and
    the file is downloaded from `url`.

    Raises:
        UnreachableError: neither the mirror nor `url` has the file.
        BukvaError: the file has another SHA-256 than `digest`, also in a mirror: a wrong mirror must be noticed.
    """
    mirror = os.environ.get("BUKVA_MIRROR", "")
    if mirror.startswith(("http://", "https://")):
        try:
            fetch(f"{mirror.rstrip('/')}/{quote(name)}", folder / name, on_bytes, digest)
            return folder / name
        except UnreachableError as error:
            note(f"BUKVA_MIRROR: {error} Fetching {redact_url(url)} instead.")
    elif mirror:
        file = resolve(mirror) / name
        if file.is_file():
            check_digest(str(file), sha256(file) if digest else "", digest)
            on_bytes(file.stat().st_size, file.stat().st_size)
            return file
        note(f"BUKVA_MIRROR: {file} does not exist. Fetching {redact_url(url)} instead.")
    try:
        fetch(url, folder / name, on_bytes, digest)
    except UnreachableError as error:
        raise UnreachableError(f"{error} Or set BUKVA_MIRROR to a folder that contains {name}.") from None
    return folder / name
