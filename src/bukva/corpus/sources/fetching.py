"""Download one file over HTTP and verify its digest.

Error messages show a URL without its user, password and query, because these may be secrets. Error messages of the
library `requests` quote the whole URL and are therefore never shown.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import PIECE_BYTES, atomic_file, resolve_path, sha256
from bukva.corpus.sources.archives import MAX_BYTES

if TYPE_CHECKING:
    import requests

RETRIES = 4  # maximum for one request, and for a transfer that breaks again and again without progress
BACKOFF_SECONDS = 0.5  # retry n waits BACKOFF_SECONDS * 2 ** (n - 1), but the first retry does not wait
RETRY_AFTER_SECONDS = 30  # the longest wait that a server may request
TIMEOUT_SECONDS = (10.0, 60.0)  # for connecting, and for waiting until more of the response arrives
PROGRESS_BYTES = 1000  # a connection makes progress if it adds at least this many bytes to the file

OnBytes = Callable[[int, int | None], None]
"""Progress callback. It receives the number of bytes so far, and the total number of bytes or None if unknown."""

OnNote = Callable[[str], None]
"""Callback for messages to the user that are not errors."""


def fetch(url: str, target: Path, on_bytes: OnBytes, digest: str = "") -> None:
    """Download the file at `url` to `target`. After an error, `target` is unchanged.

    Raises:
        BukvaError: the transfer fails, the file is larger than MAX_BYTES, or its SHA-256 is not `digest`. An empty
            `digest` accepts every file.
    """
    with atomic_file(target) as unfinished:
        with unfinished.open("wb") as file, _session() as session:
            _receive(session, url, file, on_bytes)
        _check_digest(redact_url(url), unfinished, digest)


def obtain(url: str, name: str, folder: Path, on_bytes: OnBytes, note: OnNote, digest: str = "") -> Path:
    """Return the path of the file `name` in the mirror, or download it from `url` into `folder` (see `fetch`).

    The mirror is a folder of files that were downloaded earlier, which the environment variable BUKVA_MIRROR names.
    """
    if mirror := os.environ.get("BUKVA_MIRROR", ""):
        file = resolve_path(mirror) / name
        if file.is_file():
            _check_digest(str(file), file, digest)
            on_bytes(file.stat().st_size, file.stat().st_size)
            return file
        note(f"BUKVA_MIRROR: {file} does not exist. Fetching {redact_url(url)} instead.")
    fetch(url, folder / name, on_bytes, digest)
    return folder / name


def _check_digest(name: str, file: Path, expected: str) -> None:
    if expected and (actual := sha256(file)) != expected:
        advice = "The file is damaged, or it is not the expected file. Check the file and the expected digest."
        raise BukvaError(f"{name}: its SHA-256 is {actual}, not {expected}. {advice}")


def _receive(session: "requests.Session", url: str, file: IO[bytes], on_bytes: OnBytes) -> None:
    """Download `url` into `file`, and retry when the transfer breaks."""
    redacted_url, etag, furthest, retries = redact_url(url), "", 0, 0
    total: int | None = None
    while True:
        range_headers: dict[str, str] = {}
        expected = None
        if file.tell() and total and etag:
            range_headers = {"Range": f"bytes={file.tell()}-", "If-Range": etag}
            expected = 206, f"bytes {file.tell()}-{total - 1}/{total}", etag
        with _request(session, url, range_headers) as response:
            headers = response.headers
            if (response.status_code, headers.get("Content-Range"), headers.get("ETag")) != expected:
                file.seek(0)
                file.truncate()
                etag, announced = headers.get("ETag", ""), headers.get("Content-Length", "")
                etag = "" if etag.startswith("W/") else etag  # a weak ETag does not guarantee equal bytes
                total = int(announced[:18]) if announced.isdecimal() else None  # int rejects thousands of digits
            broken = _copy(response, file, redacted_url, total, on_bytes)
        if not broken:
            return
        if file.tell() >= furthest + PROGRESS_BYTES:
            retries, furthest = 0, file.tell()
        if retries == RETRIES:
            why = f"the transfer was cut off after {file.tell()} bytes of {total or 'an unknown total'} ({broken})."
            raise BukvaError(f"{redacted_url}: {why} Run the same command again.")
        time.sleep(BACKOFF_SECONDS * 2**retries if retries else 0)
        retries += 1


def _copy(
    response: "requests.Response", file: IO[bytes], redacted_url: str, total: int | None, on_bytes: OnBytes
) -> str:
    """Append the body of a response to `file`. Return why the transfer broke, or "" if it is complete."""
    from urllib3.exceptions import HTTPError

    if response.status_code != (206 if file.tell() else 200):
        return "the server did not send the requested range"
    is_too_large = (total or 0) > MAX_BYTES
    try:
        # read1 returns whatever has arrived, while stream() would wait for a complete piece
        while not is_too_large and (piece := response.raw.read1(PIECE_BYTES, decode_content=False)):
            file.write(piece)
            on_bytes(file.tell(), total)
            is_too_large = file.tell() > MAX_BYTES
    except HTTPError as error:
        return type(error).__name__
    if is_too_large:
        raise BukvaError(
            f"{redacted_url}: the file has more than {MAX_BYTES} bytes, the limit for a corpus. Check the URL."
        )
    return "" if total in (None, file.tell()) else "the server closed the connection"


def _session() -> "requests.Session":
    """Return an HTTP session that retries a request after errors that may be temporary."""
    import requests
    from urllib3 import Retry

    retry = Retry(
        RETRIES,
        backoff_factor=BACKOFF_SECONDS,
        retry_after_max=RETRY_AFTER_SECONDS,
        status_forcelist=(429, 500, 502, 503, 504),
        raise_on_status=False,  # _request reports the status of the last response
    )
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retry))
    return session


def _request(session: "requests.Session", url: str, range_headers: dict[str, str]) -> "requests.Response":
    import requests
    from urllib3.exceptions import HTTPError

    uncompressed = {"Accept-Encoding": "identity"}  # so the body is the file itself, from which the digest is computed
    try:
        response = session.get(url, headers=uncompressed | range_headers, stream=True, timeout=TIMEOUT_SECONDS)
    except (requests.RequestException, HTTPError) as error:
        why = f"no response ({type(error).__name__}). Check the network and the URL."
        raise BukvaError(f"{redact_url(url)}: {why}") from None
    if response.status_code not in ((200, 206, 416) if range_headers else (200,)):
        response.close()
        why = f"the server responded with status {response.status_code}. Check the URL."
        raise BukvaError(f"{redact_url(url)}: {why}")
    return response
