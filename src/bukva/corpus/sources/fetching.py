"""Download one file over HTTP: complete and with the expected digest, or not at all.

A transfer that breaks continues where it broke, but only with bytes of the very same file.

Errors show an address without user, password and query, which may be secrets. The messages of requests and urllib3
quote the whole address, so none of them is passed on.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import quote

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

# a date with seconds distinguishes two versions of a file only when it is this far in the past (RFC 9110, 8.8.2.2)
SETTLED_SECONDS = 60

CHECK_ADDRESS = "check the address."

CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")

OnBytes = Callable[[int, int | None], None]
"""Called with the number of bytes received, and with the size of the file or None if it is unknown."""

OnNote = Callable[[str], None]
"""Called with a sentence for the user that is not an error."""


class UnreachableError(BukvaError):
    """An address does not provide its file; another one may."""


class _BrokenError(Exception):
    """A transfer ended before the file was complete; the message says why."""


def fetch(url: str, target: Path, on_bytes: OnBytes, digest: str = "") -> None:
    """Download the file of an address; `target` appears complete and correct, or not at all.

    Raises:
        UnreachableError: no connection, endless redirections, a status other than 200, or repeatedly too few bytes.
        BukvaError: the file is too large, or has another SHA-256 than `digest`.
    """
    with atomic_file(target) as unfinished, unfinished.open("wb") as file, _session() as session:
        transfer = _Transfer(file, redact_url(url), on_bytes)
        _complete(transfer, session, url)
        check_digest(redact_url(url), transfer.digest.hexdigest(), digest)


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


def check_digest(where: str, actual: str, expected: str) -> None:
    """Raise when a file does not have the expected digest; an empty one accepts every file.

    Raises:
        BukvaError: names the file and both digests.
    """
    if expected and actual != expected:
        why = "it is damaged or a different file; check the file and the expected digest."
        raise BukvaError(f"{where}: its SHA-256 is {actual}, not {expected}; {why}")


@dataclass
class _Transfer:
    """The bytes of a file that have arrived, and what the remaining bytes must have in common with them."""

    file: IO[bytes]
    where: str
    on_bytes: OnBytes
    n_bytes: int = 0
    total: int | None = None
    version: tuple[str, str] | None = None
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @property
    def range_headers(self) -> dict[str, str]:
        """The headers that request the remaining bytes of the same version; none if no version is known."""
        if not self.n_bytes or not self.version:
            return {}
        return {"Range": f"bytes={self.n_bytes}-", "If-Range": self.version[1]}

    def receive(self, response: "requests.Response") -> None:
        """Read an answer to its end.

        Raises:
            _BrokenError: the file is not complete yet.
            BukvaError: it is too large.
        """
        from urllib3.exceptions import HTTPError

        if not self._continues(response):
            self._restart(response)
        self._check_size(self.total or 0)
        try:
            self._read(response)
        except HTTPError as error:
            raise _BrokenError(_reason(error)) from None
        if self.total not in (None, self.n_bytes):
            raise _BrokenError("the server closed the connection")

    def _continues(self, response: "requests.Response") -> bool:
        """Whether an answer is the requested rest of the same version: servers make all of these mistakes."""
        match = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status_code != 206 or not match or int(match[1]) != self.n_bytes:
            return False
        total = None if match[2] == "*" else int(match[2])
        if _version(response) != self.version or (self.total and total and total != self.total):
            return False
        self.total = self.total or total
        return True

    def _restart(self, response: "requests.Response") -> None:
        """Discard the received bytes; raise if the answer is not the whole file either."""
        partial = response.status_code != 200 or (self.range_headers and "Content-Range" in response.headers)
        announced = response.headers.get("Content-Length", "")
        self.file.seek(0)
        self.file.truncate()
        self.n_bytes, self.total, self.version, self.digest = 0, None, None, hashlib.sha256()
        if partial:
            raise _BrokenError("the server sent another range than the requested one")
        # the first digits of an absurd number exceed the bound as well, and int rejects thousands of digits
        self.total = int(announced[:18]) if announced.isdecimal() else None
        self.version = _version(response)

    def _read(self, response: "requests.Response") -> None:
        # not stream(), which waits for complete pieces
        while piece := response.raw.read1(PIECE_BYTES, decode_content=False):
            self.file.write(piece)
            self.digest.update(piece)
            self.n_bytes += len(piece)
            self.on_bytes(self.n_bytes, self.total)
            self._check_size(self.n_bytes)

    def _check_size(self, n_bytes: int) -> None:
        if n_bytes > MAX_BYTES:
            raise BukvaError(f"{self.where}: has more than {MAX_BYTES} bytes, the limit for a corpus; {CHECK_ADDRESS}")


def _complete(transfer: _Transfer, session: "requests.Session", url: str) -> None:
    """Request a file, and what is missing whenever the transfer breaks."""
    retries, furthest = 0, 0
    while True:
        try:
            with _request(session, url, transfer.range_headers) as response:
                return transfer.receive(response)
        except _BrokenError as broken:
            if transfer.n_bytes >= furthest + PROGRESS_BYTES:
                retries, furthest = 0, transfer.n_bytes
            if retries == RETRIES:
                why = f"cut off after {transfer.n_bytes} bytes of {transfer.total or 'more'} ({broken})"
                raise UnreachableError(f"{transfer.where}: {why}; give the same command again.") from None
            time.sleep(BACKOFF_SECONDS * 2**retries if retries else 0)
            retries += 1


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
    session.hooks["response"].append(_drop_body_of_redirect)
    return session


def _drop_body_of_redirect(response: "requests.Response", **_: object) -> None:
    # else requests reads the whole body into memory before it follows the redirection
    if response.is_redirect:
        response.close()


def _request(session: "requests.Session", url: str, range_headers: dict[str, str]) -> "requests.Response":
    """The answer of a server that has the file, with an unread body; `range_headers` request a part of it."""
    import requests
    from urllib3.exceptions import HTTPError

    uncompressed = {"Accept-Encoding": "identity"}  # the digest is that of the file, not of a compressed transfer
    try:
        response = session.get(url, headers=uncompressed | range_headers, stream=True, timeout=TIMEOUT_SECONDS)
    except requests.TooManyRedirects:
        why = f"redirected {session.max_redirects} times without an end; {CHECK_ADDRESS}"
        raise UnreachableError(f"{redact_url(url)}: {why}") from None
    except requests.exceptions.InvalidSchema:
        why = f"redirected to an address that does not start with http:// or https://; {CHECK_ADDRESS}"
        raise UnreachableError(f"{redact_url(url)}: {why}") from None
    except (requests.RequestException, HTTPError) as error:
        why = f"no connection ({_reason(error)}); check the network and the address."
        raise UnreachableError(f"{redact_url(url)}: {why}") from None
    if response.status_code not in ((200, 206, 416) if range_headers else (200,)):
        response.close()
        why = f"the server answers with status {response.status_code}; {CHECK_ADDRESS}"
        raise UnreachableError(f"{redact_url(url)}: {why}")
    return response


def _version(response: "requests.Response") -> tuple[str, str] | None:
    """The header that identifies this version of a file, and its value; None if no header is that strict."""
    headers = response.headers
    if etag := headers.get("ETag"):
        return None if etag.startswith("W/") else ("ETag", etag)  # a weak one lets bytes differ
    try:
        changed, sent = (parsedate_to_datetime(headers[name]) for name in ("Last-Modified", "Date"))
        settled = (sent - changed).total_seconds() >= SETTLED_SECONDS
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return ("Last-Modified", headers["Last-Modified"]) if settled else None


def _reason(error: BaseException) -> str:
    """The operating system's message, which contains no address; else the type of the error."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
