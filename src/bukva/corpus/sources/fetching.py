"""Download files over HTTP, also those of a dataset on the Hugging Face hub, and verify their digests.

A BukvaError shows a URL without its user, password and query, because these may be secrets. Error messages of the
libraries quote the whole response, and are therefore never shown.
"""

import fnmatch
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import atomic_file, resolve_path, sha256
from bukva.corpus.sources.archives import MAX_BYTES

if TYPE_CHECKING:
    import requests
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoSibling

RETRIES = 4  # maximum for one request, and for a transfer that breaks
BACKOFF_SECONDS = 0.5  # retry n waits BACKOFF_SECONDS * 2 ** (n - 1), but the first retry does not wait
RETRY_AFTER_SECONDS = 30  # the longest wait that a server may request
TIMEOUT_SECONDS = (10.0, 60.0)  # for connecting, and for waiting until more of the response arrives
PIECE_BYTES = 1 << 16

OnBytes = Callable[[int, int | None], None]  # called with the bytes so far, and with their total or None if unknown
OnNote = Callable[[str], None]  # called with messages to the user that are not errors


def fetch(url: str, target: Path, on_bytes: OnBytes, digest: str = "") -> None:
    """Download the file at `url`, whose SHA-256 must be `digest` if given. After an error, `target` is unchanged."""
    with atomic_file(target) as unfinished:
        with _session() as session:
            for retry in range(RETRIES + 1):
                time.sleep(BACKOFF_SECONDS * 2 ** (retry - 1) if retry > 1 else 0)
                if not (broken := _receive(session, url, unfinished, on_bytes)):
                    break
            else:
                raise BukvaError(f"{url}: the transfer was cut off {broken}. Run the same command again.")
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
        raise_on_status=False,  # _receive reports the status of the last response
    )
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retry))
    return session


def _receive(session: "requests.Session", url: str, target: Path, on_bytes: OnBytes) -> str:
    """Download `url` to a file. Return where and why the transfer broke, or "" if it is complete."""
    import requests
    from urllib3.exceptions import HTTPError

    headers = {"Accept-Encoding": "identity"}  # the digest was computed without compression
    try:
        response = session.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS)
    except (requests.RequestException, HTTPError) as error:
        why = f"no response ({type(error).__name__}). Check the network and the URL."
        raise BukvaError(f"{url}: {why}") from None
    with response, target.open("wb") as file:
        if response.status_code != 200:
            raise BukvaError(f"{url}: the server responded with status {response.status_code}. Check the URL.")
        total = response.raw.length_remaining
        try:
            for piece in response.raw.stream(PIECE_BYTES, decode_content=False):
                file.write(piece)
                on_bytes(file.tell(), total)
                if max(file.tell(), total or 0) > MAX_BYTES:
                    why = f"the file has more than {MAX_BYTES} bytes, the limit for a corpus. Check the URL."
                    raise BukvaError(f"{url}: {why}")
        except HTTPError as error:
            return f"after {file.tell()} bytes of {total or 'an unknown total'} ({type(error).__name__})"
    return ""


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
    from huggingface_hub.utils.sha import git_hash

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=os.environ.get("HF_TOKEN") or False)
    try:
        files = _chosen(_listed(api, dataset, revision), dataset, pattern, is_read)
        total, done = sum(file.size or 0 for file in files), 0
        for file in files:
            path = Path(
                api.hf_hub_download(
                    dataset,
                    file.rfilename,
                    repo_type="dataset",
                    revision=revision,
                    local_dir=folder,
                    cache_dir=folder / ".cache",  # or it would search the cache in the home directory
                    etag_timeout=TIMEOUT_SECONDS[1],
                )
            )
            expected, actual = (
                (file.lfs.sha256, sha256(path)) if file.lfs else (file.blob_id, git_hash(path.read_bytes()))
            )
            if actual != expected:
                why = f"its digest is {actual}, but in the commit it is {expected}"
                raise BukvaError(f"{dataset}, {file.rfilename}: {why}. Run the same command again.")
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
