"""Files from the network, or from a mirror of it.

A transfer that breaks goes on where it broke, but only with bytes of the very same file.

Errors show an address without user, password and query, which may be secrets. The messages of requests and
urllib3 quote all of it, so none of them is passed on.
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

from bukva.base.errors import BukvaError
from bukva.base.files import atomic_file, resolve, sha256
from bukva.base.redact import redact_url
from bukva.corpus.archives import MAX_BYTES

if TYPE_CHECKING:
    import requests

RETRIES = 4  # in a row, for an answer; and again for a transfer that gets no further
BACKOFF_SECONDS = 0.5  # doubled with every retry but the first, which comes at once
RETRY_AFTER_SECONDS = 30  # the longest wait that a server may ask for
TIMEOUT_SECONDS = (10.0, 60.0)  # to connect, and from one piece of the answer to the next
PIECE_BYTES = 1 << 18

# a server that gives a byte now and then never runs into a time-out; the slowest modem gave a hundred times as much
SLOW_SECONDS = 60.0
SLOW_BYTES = 1000  # fewer in so many seconds are no transfer, and fewer on a connection are no headway

# a date with seconds tells two versions of a file apart only when it lay this far back (RFC 9110, 8.8.2.2)
SETTLED_SECONDS = 60

CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and with the bytes of the whole where these are known."""

Note = Callable[[str], None]
"""Called with a sentence for the user that is no error."""


class UnreachableError(BukvaError):
    """An address does not give its file; another one may."""


class _BrokenError(Exception):
    """A transfer ended before the file did; says why."""


def fetch(url: str, target: Path, on_progress: Progress, digest: str = "") -> None:
    """Download the file of an address; `target` appears whole and right, or not at all.

    Raises:
        UnreachableError: no connection, redirections without end, a status other than 200, or too few bytes
            again and again.
        BukvaError: the file is too large, or has another SHA-256 than `digest`.
    """
    with atomic_file(target) as part, part.open("wb") as file, _session() as session:
        copy = _Copy(file, redact_url(url), on_progress)
        _complete(copy, session, url)
        _check_digest(redact_url(url), copy.digest.hexdigest(), digest)


def obtain(url: str, name: str, folder: Path, on_progress: Progress, note: Note, digest: str = "") -> Path:
    """The path of the file called `name`: in the mirror if that is a folder, else downloaded into `folder`.

    BUKVA_MIRROR names a folder or the address of one. If it lacks the file, a note says so and `url` is used.

    Raises:
        UnreachableError: neither gives the file.
        BukvaError: the file has another SHA-256 than `digest`, in a mirror too: a wrong mirror must be seen.
    """
    mirror = os.environ.get("BUKVA_MIRROR", "")
    if mirror.startswith(("http://", "https://")):
        try:
            fetch(f"{mirror.rstrip('/')}/{quote(name)}", folder / name, on_progress, digest)
            return folder / name
        except UnreachableError as error:
            note(f"BUKVA_MIRROR: {error} Fetching {redact_url(url)} instead.")
    elif mirror:
        held = resolve(mirror) / name
        if held.is_file():
            _check_digest(str(held), sha256(held) if digest else "", digest)
            on_progress(held.stat().st_size, held.stat().st_size)
            return held
        note(f"BUKVA_MIRROR: {held} is not there. Fetching {redact_url(url)} instead.")
    try:
        fetch(url, folder / name, on_progress, digest)
    except UnreachableError as error:
        hint = f"A folder that holds {name}, named by BUKVA_MIRROR, would do too."
        raise UnreachableError(f"{error} {hint}") from None
    return folder / name


@dataclass
class _Copy:
    """A file as far as it has arrived, and what it must share with the bytes to come."""

    file: IO[bytes]
    where: str
    on_progress: Progress
    n_bytes: int = 0
    total: int | None = None
    version: tuple[str, str] | None = None
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @property
    def asked(self) -> dict[str, str]:
        """The headers that ask for the rest, if the file is still the same; none where nothing would tell."""
        if not self.n_bytes or not self.version:
            return {}
        return {"Range": f"bytes={self.n_bytes}-", "If-Range": self.version[1]}

    def receive(self, response: "requests.Response") -> None:
        """Take in an answer.

        Raises:
            _BrokenError: the file is not whole yet.
            BukvaError: it is too large.
        """
        from urllib3.exceptions import HTTPError

        if not self._goes_on(response):
            self._begin(response)
        self._check_size(self.total or 0)
        try:
            self._read(response)
        except HTTPError as error:
            raise _BrokenError(_reason(error)) from None
        if self.total not in (None, self.n_bytes):
            raise _BrokenError("the server ended it")

    def _goes_on(self, response: "requests.Response") -> bool:
        """Whether an answer is the rest that was asked for, of the same version: servers err in all of these."""
        found = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status_code != 206 or not found or int(found[1]) != self.n_bytes:
            return False
        total = None if found[2] == "*" else int(found[2])
        if _version(response) != self.version or (self.total and total and total != self.total):
            return False
        self.total = self.total or total
        return True

    def _begin(self, response: "requests.Response") -> None:
        """Forget what is there; an answer that is not the whole file is not taken in its place."""
        partial = response.status_code != 200 or (self.asked and "Content-Range" in response.headers)
        announced = response.headers.get("Content-Length", "")
        self.file.seek(0)
        self.file.truncate()
        self.n_bytes, self.total, self.version, self.digest = 0, None, None, hashlib.sha256()
        if partial:
            raise _BrokenError("the server gives another part than that asked for")
        # the first digits of an absurd number are too many as well, and int refuses thousands
        self.total = int(announced[:18]) if announced.isdecimal() else None
        self.version = _version(response)

    def _read(self, response: "requests.Response") -> None:
        since, before = time.monotonic(), self.n_bytes
        # not stream(), which waits for whole pieces: slowness would show only when a piece is full
        while piece := response.raw.read1(PIECE_BYTES, decode_content=False):
            self.file.write(piece)
            self.digest.update(piece)
            self.n_bytes += len(piece)
            self.on_progress(self.n_bytes, self.total)
            self._check_size(self.n_bytes)
            if time.monotonic() - since > SLOW_SECONDS:
                if self.n_bytes - before < SLOW_BYTES:
                    raise _BrokenError(f"fewer than {SLOW_BYTES} bytes in {SLOW_SECONDS:.0f} s")
                since, before = time.monotonic(), self.n_bytes

    def _check_size(self, n_bytes: int) -> None:
        if n_bytes > MAX_BYTES:
            why = f"has more than {MAX_BYTES} bytes; no corpus needs so many, and the right address would do."
            raise BukvaError(f"{self.where}: {why}")


def _complete(copy: _Copy, session: "requests.Session", url: str) -> None:
    """Ask for a file, and for what is missing whenever the transfer breaks."""
    retries, furthest = 0, 0
    while True:
        try:
            with _ask(session, url, copy.asked) as response:
                return copy.receive(response)
        except _BrokenError as broken:
            if copy.n_bytes >= furthest + SLOW_BYTES:
                retries, furthest = 0, copy.n_bytes
            if retries == RETRIES:
                why = f"cut off after {copy.n_bytes} bytes of {copy.total or 'more'} ({broken})"
                raise UnreachableError(f"{copy.where}: {why}; running it again would do.") from None
            time.sleep(BACKOFF_SECONDS * 2**retries if retries else 0)
            retries += 1


def _session() -> "requests.Session":
    """A session that tries again where that can help."""
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
    # requests would read it into memory, all of it, before it goes where it is sent
    if response.is_redirect:
        response.close()


def _ask(session: "requests.Session", url: str, rest: dict[str, str]) -> "requests.Response":
    """The answer of a server that has the file; its body is still to be read. `rest` asks for what is missing."""
    import requests
    from urllib3.exceptions import HTTPError

    plain = {"Accept-Encoding": "identity"}  # not compressed for the way: the digest is that of the file
    try:
        response = session.get(url, headers=plain | rest, stream=True, timeout=TIMEOUT_SECONDS)
    except requests.TooManyRedirects:
        why = f"redirected {session.max_redirects} times without an end; the right address would do."
        raise UnreachableError(f"{redact_url(url)}: {why}") from None
    except (requests.RequestException, HTTPError) as error:
        why = f"no connection ({_reason(error)}); a network and the right address would do."
        raise UnreachableError(f"{redact_url(url)}: {why}") from None
    if response.status_code not in ((200, 206, 416) if rest else (200,)):
        response.close()
        why = f"the server answers with status {response.status_code}; the right address would do."
        raise UnreachableError(f"{redact_url(url)}: {why}")
    return response


def _version(response: "requests.Response") -> tuple[str, str] | None:
    """The header that tells this version of a file from every other, and its value; nothing if none is that strict."""
    headers = response.headers
    if etag := headers.get("ETag"):
        return None if etag.startswith("W/") else ("ETag", etag)  # a weak one lets bytes differ
    try:
        changed, sent = (parsedate_to_datetime(headers[name]) for name in ("Last-Modified", "Date"))
        settled = (sent - changed).total_seconds() >= SETTLED_SECONDS
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return ("Last-Modified", headers["Last-Modified"]) if settled else None


def _check_digest(where: str, found: str, expected: str) -> None:
    if expected and found != expected:
        why = "it is damaged or another file, or the digest is that of another."
        raise BukvaError(f"{where}: its SHA-256 is {found}, not {expected}; {why}")


def _reason(error: BaseException) -> str:
    """What the operating system said, which knows no address; else the kind of the error."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
