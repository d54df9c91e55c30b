"""Files from the network, or from a mirror of it.

Errors show an address without user, password and query, which may be secrets. The messages of requests and
urllib3 quote all of it, so none of them is passed on.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from bukva.errors import BukvaError
from bukva.files import atomic_file, resolve, sha256

if TYPE_CHECKING:
    import requests

RETRIES = 4
BACKOFF_SECONDS = 0.5  # doubled with every retry but the first, which comes at once
RETRY_AFTER_SECONDS = 30  # the longest wait that a server may ask for
TIMEOUT_SECONDS = (10.0, 60.0)  # to connect, and from one piece of the answer to the next
PIECE_BYTES = 1 << 18

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and with the bytes of the whole where these are known."""

Note = Callable[[str], None]
"""Called with a sentence for the user that is no error."""


class UnreachableError(BukvaError):
    """An address does not give its file; another one may."""


def fetch(url: str, target: Path, on_progress: Progress, digest: str = "") -> None:
    """Download the file of an address; `target` appears whole and right, or not at all.

    Raises:
        UnreachableError: no connection, a status other than 200, or fewer bytes than were announced.
        BukvaError: the file has another SHA-256 than `digest`.
    """
    with atomic_file(target) as part, _session() as session, _ask(session, url) as response:
        found = _receive(response, shown(url), part, on_progress)
        _check_digest(shown(url), found, digest)


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
            note(f"BUKVA_MIRROR: {error} Fetching {shown(url)} instead.")
    elif mirror:
        held = resolve(mirror) / name
        if held.is_file():
            _check_digest(str(held), sha256(held) if digest else "", digest)
            on_progress(held.stat().st_size, held.stat().st_size)
            return held
        note(f"BUKVA_MIRROR: {held} is not there. Fetching {shown(url)} instead.")
    try:
        fetch(url, folder / name, on_progress, digest)
    except UnreachableError as error:
        hint = f"A folder that holds {name}, named by BUKVA_MIRROR, would do too."
        raise UnreachableError(f"{error} {hint}") from None
    return folder / name


def shown(url: str) -> str:
    """An address as it may be printed: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises where a bare / ? or # in a password makes its beginning look like a port
    except ValueError:
        return "the address, which is malformed"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


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
    return session


def _ask(session: "requests.Session", url: str) -> "requests.Response":
    """The answer of a server that has the file; its body is still to be read."""
    import requests
    from urllib3.exceptions import HTTPError

    plain = {"Accept-Encoding": "identity"}  # not compressed for the way: the digest is that of the file
    try:
        response = session.get(url, headers=plain, stream=True, timeout=TIMEOUT_SECONDS)
    except (requests.RequestException, HTTPError) as error:
        why = f"no connection ({_reason(error)}); a network and the right address would do."
        raise UnreachableError(f"{shown(url)}: {why}") from None
    if response.status_code != 200:
        response.close()
        why = f"the server answers with status {response.status_code}; the right address would do."
        raise UnreachableError(f"{shown(url)}: {why}")
    return response


def _receive(response: "requests.Response", where: str, part: Path, on_progress: Progress) -> str:
    """Write the body of an answer; returns its SHA-256 digest."""
    from urllib3.exceptions import HTTPError

    announced = response.headers.get("Content-Length", "")
    total = int(announced) if announced.isdecimal() else None
    done, digest = 0, hashlib.sha256()
    try:
        with part.open("wb") as file:
            for piece in response.raw.stream(PIECE_BYTES, decode_content=False):
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                on_progress(done, total)
    except HTTPError as error:
        why = f"cut off after {done} bytes of {total or 'more'} ({_reason(error)}); running it again would do."
        raise UnreachableError(f"{where}: {why}") from None
    return digest.hexdigest()


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
