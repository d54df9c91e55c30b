"""Download files over HTTP, also those of a dataset on the Hugging Face hub, and verify their digests.

A BukvaError shows a URL without its user, password and query, because these may be secrets. Error messages of the
libraries quote the whole response, and are therefore never shown.
"""

import fnmatch
import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import PIECE_BYTES, atomic_file, resolve_path, sha256
from bukva.corpus.sources.archives import MAX_BYTES

if TYPE_CHECKING:
    import requests
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoSibling

RETRIES = 4  # maximum for one request, and for a transfer that breaks again and again without progress
BACKOFF_SECONDS = 0.5  # retry n waits BACKOFF_SECONDS * 2 ** (n - 1), but the first retry does not wait
RETRY_AFTER_SECONDS = 30  # the longest wait that a server may request
TIMEOUT_SECONDS = (10.0, 60.0)  # for connecting, and for waiting until more of the response arrives
PROGRESS_BYTES = 1000  # a connection makes progress if it adds at least this many bytes to the file

OnBytes = Callable[[int, int | None], None]  # called with the bytes so far, and with their total or None if unknown
OnNote = Callable[[str], None]  # called with messages to the user that are not errors


def fetch(url: str, target: Path, on_bytes: OnBytes, digest: str = "") -> None:
    """Download the file at `url`, whose SHA-256 must be `digest` if given. After an error, `target` is unchanged."""
    with atomic_file(target) as unfinished:
        with unfinished.open("wb") as file, _session() as session:
            _receive(session, url, file, on_bytes)
        _check_digest(url, unfinished, digest)


def obtain(url: str, name: str, folder: Path, on_bytes: OnBytes, note: OnNote, digest: str = "") -> Path:
    """Return the path of the file `name` in the folder BUKVA_MIRROR, or download it from `url` into `folder`."""
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


def _receive(session: "requests.Session", url: str, file: IO[bytes], on_bytes: OnBytes) -> None:
    """Download `url` into `file`, and retry when the transfer breaks."""
    etag, furthest, retries = "", 0, 0
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
                etag = "" if etag.startswith("W/") else etag  # a weak ETag does not guarantee equal bytes
                total = int(announced[:18]) if announced.isdecimal() else None  # int rejects thousands of digits
            broken = _copy(response, file, url, total, on_bytes)
        if not broken:
            return
        if file.tell() >= furthest + PROGRESS_BYTES:
            retries, furthest = 0, file.tell()
        if retries == RETRIES:
            why = f"the transfer was cut off after {file.tell()} bytes of {total or 'an unknown total'} ({broken})."
            raise BukvaError(f"{url}: {why} Run the same command again.")
        time.sleep(BACKOFF_SECONDS * 2**retries if retries else 0)
        retries += 1


def _request(session: "requests.Session", url: str, rest: dict[str, str]) -> "requests.Response":
    """Request a file, or with headers `rest` only the rest of it."""
    import requests
    from urllib3.exceptions import HTTPError

    headers = {"Accept-Encoding": "identity", **rest}  # the digest is that of the uncompressed file
    try:
        response = session.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS)
    except (requests.RequestException, HTTPError) as error:
        why = f"no response ({type(error).__name__}). Check the network and the URL."
        raise BukvaError(f"{url}: {why}") from None
    if (status := response.status_code) not in ((200, 206, 416) if rest else (200,)):
        response.close()
        raise BukvaError(f"{url}: the server responded with status {status}. Check the URL.")
    return response


def _copy(response: Any, file: IO[bytes], url: str, total: int | None, on_bytes: OnBytes) -> str:
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
        why = f"the file has more than {MAX_BYTES} bytes, the limit for a corpus. Check the URL."
        raise BukvaError(f"{url}: {why}")
    return "" if total in (None, file.tell()) else "the server closed the connection"


# ---- datasets of the Hugging Face hub. A token is only taken from HF_TOKEN, and only the target folder is written.

COMMIT = re.compile(r"[0-9a-f]{40}")
CARD = "README.md"  # the dataset card, which describes the texts of the dataset
SHOWN = 5  # maximum number of file names in an error message
NO_DATASET = (
    "Check the network and download.url. A private or gated dataset needs a token in the environment variable "
    "HF_TOKEN. If the dataset is gated, first accept its conditions on this page."
)
HIDDEN = re.compile(r"^/|\\|(^|/)\.")  # hidden files, and paths that may lead outside the target folder

# huggingface_hub reads these variables when it is imported. The protocol Xet would keep a cache in the home directory.
SETTINGS = {
    **dict.fromkeys(["HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_PROGRESS_BARS"], "1"),
    "HF_HUB_VERBOSITY": "critical",
}


def fetch_dataset(
    dataset: str, revision: str, pattern: str, is_read: Callable[[Path], bool], folder: Path, on_bytes: OnBytes
) -> None:
    """Download the files of a dataset (owner/name) that match `pattern` into a new folder, in which they keep paths.

    In the pattern, `*` matches any text, including `/`. Files for whose path `is_read` is false are not downloaded.
    `revision` must be the hash of a commit, because a branch may change. HF_ENDPOINT can contain the URL of another
    hub. After an error, the caller must delete the folder.
    """
    os.environ.update(SETTINGS)
    import httpx2
    from huggingface_hub import HfApi

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=os.environ.get("HF_TOKEN") or False)
    try:
        files = _chosen(_listed(api, dataset, revision), dataset, pattern, is_read)
        total, done = sum(file.size or 0 for file in files), 0
        for file in files:
            _download(api, dataset, revision, file, folder)
            done += file.size or 0
            on_bytes(done, total)
    except (httpx2.HTTPError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        # KeyError, TypeError, ValueError and AttributeError occur if a server that is not a hub responds
        if isinstance(error, OSError) and error.errno:  # an error of the disk, not of the network
            raise
        status = getattr(getattr(error, "response", None), "status_code", None)
        no_hub = f"there is no connection, or the server is not a Hugging Face hub ({type(error).__name__})"
        why = f"the hub responded with status {status}" if status else no_hub
        raise BukvaError(f"{api.endpoint}/datasets/{dataset}: {why}. {NO_DATASET}") from None


def _listed(api: "HfApi", dataset: str, revision: str) -> "list[RepoSibling]":
    from huggingface_hub.errors import RevisionNotFoundError

    why, branch = "no hash of a commit (40 digits) follows the @, so the texts may change", revision or None
    if COMMIT.fullmatch(revision):
        try:
            info = api.dataset_info(dataset, revision=revision, timeout=TIMEOUT_SECONDS[1], files_metadata=True)
            return info.siblings or []
        except RevisionNotFoundError:
            why, branch = f"{dataset} has no commit {revision}", None
    newest = api.dataset_info(dataset, revision=branch, timeout=TIMEOUT_SECONDS[1]).sha
    raise BukvaError(f"params.yaml, download.url: {why}. Use the newest commit: hf://datasets/{dataset}@{newest}")


def _chosen(listed: Any, dataset: str, pattern: str, is_read: Callable[[Path], bool]) -> "list[RepoSibling]":
    names = {file.rfilename: file for file in listed if file.rfilename != CARD}
    matching = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    chosen = sorted(name for name in matching if is_read(Path(name)) and not HIDDEN.search(name))
    if not chosen:
        known = ", ".join(sorted(matching or names)[:SHOWN]) or "no files"
        why = f"{redact_url(pattern)!r} matches no file of {dataset} that can be read"
        more = " ..." if len(names) > SHOWN else ""
        raise BukvaError(f"params.yaml, download.url: {why}. The dataset has {known}{more}.")
    return [names[name] for name in chosen]


def _download(api: "HfApi", dataset: str, revision: str, file: "RepoSibling", folder: Path) -> None:
    api.hf_hub_download(
        dataset,
        file.rfilename,
        repo_type="dataset",
        revision=revision,
        local_dir=folder,
        cache_dir=folder / ".cache",  # without this, the cache in the home directory is searched in spite of local_dir
        etag_timeout=TIMEOUT_SECONDS[1],
    )
    path = folder / file.rfilename
    expected, actual = (file.lfs.sha256, sha256(path)) if file.lfs else (file.blob_id, _git_blob_id(path))
    if actual != expected:
        why = f"its digest is {actual}, but in the commit it is {expected}"
        raise BukvaError(f"{dataset}, {file.rfilename}: {why}. Run the same command again.")


def _git_blob_id(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
