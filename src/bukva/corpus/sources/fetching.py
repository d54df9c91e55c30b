"""Download one file over HTTP: complete and with the expected digest, or not at all.

Errors show an address without user, password and query, which may be secrets. The messages of requests quote the
whole address, so none of them is passed on.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import PIECE_BYTES, atomic_file, resolve, sha256
from bukva.corpus.sources.archives import MAX_BYTES

if TYPE_CHECKING:
    import requests

RETRIES = 4  # in a row, for an answer; and again for a transfer that makes no progress
BACKOFF_SECONDS = 0.5  # doubled with every retry but the first, which comes at once
RETRY_AFTER_SECONDS = 30  # the longest wait that a server may request
TIMEOUT_SECONDS = (10.0, 60.0)  # to connect, and from one piece of the answer to the next
PROGRESS_BYTES = 1000  # fewer on a connection do not count as progress

OnBytes = Callable[[int, int | None], None]
"""Called with the number of bytes received, and with the size of the file or None if it is unknown."""

OnNote = Callable[[str], None]
"""Called with a sentence for the user that is not an error."""


def fetch(url: str, target: Path, on_bytes: OnBytes, digest: str = "") -> None:
    """Download the file of an address; `target` appears complete and correct, or not at all.

    Raises:
        BukvaError: no connection, a status other than 200, repeatedly too few bytes, or too many; or the file has
            another SHA-256 than `digest`.
    """
    with atomic_file(target) as unfinished:
        with unfinished.open("wb") as file, _session() as session:
            _receive(session, url, file, on_bytes)
        _check_digest(redact_url(url), unfinished, digest)


def obtain(url: str, name: str, folder: Path, on_bytes: OnBytes, note: OnNote, digest: str = "") -> Path:
    """The path of the file `name`: in the mirror if that is a folder, else downloaded into `folder`.

    BUKVA_MIRROR names a folder. If it does not have the file, `note` is called and the file is downloaded from `url`.

    Raises:
        BukvaError: as for fetch; also a mirror's file must have the digest, so that a wrong one is noticed.
    """
    if mirror := os.environ.get("BUKVA_MIRROR", ""):
        file = resolve(mirror) / name
        if file.is_file():
            _check_digest(str(file), file, digest)
            on_bytes(file.stat().st_size, file.stat().st_size)
            return file
        note(f"BUKVA_MIRROR: {file} does not exist. Fetching {redact_url(url)} instead.")
    fetch(url, folder / name, on_bytes, digest)
    return folder / name


def _check_digest(where: str, file: Path, expected: str) -> None:
    """Raise when a file does not have the expected digest; an empty one accepts every file."""
    if expected and (actual := sha256(file)) != expected:
        why = "it is damaged or a different file; check the file and the expected digest."
        raise BukvaError(f"{where}: its SHA-256 is {actual}, not {expected}; {why}")


def _receive(session: "requests.Session", url: str, file: IO[bytes], on_bytes: OnBytes) -> None:
    """Write the whole file.

    A transfer that breaks goes on where it broke, but only with bytes of the very same file (a strong ETag); without,
    it starts again.
    """
    where, etag, furthest, retries = redact_url(url), "", 0, 0
    total: int | None = None
    while True:
        rest: dict[str, str] = {}
        expected = None
        if file.tell() and total and etag:
            rest = {"Range": f"bytes={file.tell()}-", "If-Range": etag}
            expected = 206, f"bytes {file.tell()}-{total - 1}/{total}", etag
        with _request(session, url, rest) as response:
            headers = response.headers
            if (response.status_code, headers.get("Content-Range"), headers.get("ETag")) != expected:
                file.seek(0)
                file.truncate()
                etag, announced = headers.get("ETag", ""), headers.get("Content-Length", "")
                etag = "" if etag.startswith("W/") else etag  # a weak one lets bytes differ
                total = int(announced[:18]) if announced.isdecimal() else None  # int rejects thousands of digits
            broken = _copy(response, file, where, total, on_bytes)
        if not broken:
            return
        if file.tell() >= furthest + PROGRESS_BYTES:
            retries, furthest = 0, file.tell()
        if retries == RETRIES:
            why = f"cut off after {file.tell()} bytes of {total or 'more'} ({broken}); give the same command again."
            raise BukvaError(f"{where}: {why}")
        time.sleep(BACKOFF_SECONDS * 2**retries if retries else 0)
        retries += 1


def _copy(response: "requests.Response", file: IO[bytes], where: str, total: int | None, on_bytes: OnBytes) -> str:
    """Write what arrives; returns why the file is not complete, or nothing."""
    from urllib3.exceptions import HTTPError

    if response.status_code != (206 if file.tell() else 200):
        return "the server sent another range than the requested one"
    is_too_large = (total or 0) > MAX_BYTES
    try:
        # not stream(), which waits for complete pieces
        while not is_too_large and (piece := response.raw.read1(PIECE_BYTES, decode_content=False)):
            file.write(piece)
            on_bytes(file.tell(), total)
            is_too_large = file.tell() > MAX_BYTES
    except HTTPError as error:
        return type(error).__name__
    if is_too_large:
        raise BukvaError(f"{where}: has more than {MAX_BYTES} bytes, the limit for a corpus; check the address.")
    return "" if total in (None, file.tell()) else "the server closed the connection"


def _session() -> "requests.Session":
    """A session that retries the errors that may be temporary."""
    import requests
    from urllib3 import Retry

    retry = Retry(
        RETRIES,
        backoff_factor=BACKOFF_SECONDS,
        retry_after_max=RETRY_AFTER_SECONDS,
        status_forcelist=(429, 500, 502, 503, 504),
        raise_on_status=False,  # the last answer counts, whatever it is
    )
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retry))
    return session


def _request(session: "requests.Session", url: str, rest: dict[str, str]) -> "requests.Response":
    """The answer of a server that has the file, with an unread body; `rest` are headers that request a part of it."""
    import requests
    from urllib3.exceptions import HTTPError

    uncompressed = {"Accept-Encoding": "identity"}  # the digest is that of the file, not of a compressed transfer
    try:
        response = session.get(url, headers=uncompressed | rest, stream=True, timeout=TIMEOUT_SECONDS)
    except (requests.RequestException, HTTPError) as error:
        why = f"no answer ({type(error).__name__}); check the network and the address."
        raise BukvaError(f"{redact_url(url)}: {why}") from None
    if response.status_code not in ((200, 206, 416) if rest else (200,)):
        response.close()
        why = f"the server answers with status {response.status_code}; check the address."
        raise BukvaError(f"{redact_url(url)}: {why}")
    return response
