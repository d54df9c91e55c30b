"""Download files of one commit of a dataset from the Hugging Face hub, and verify their digests.

A token is only taken from the environment variable HF_TOKEN, no telemetry is sent, and only the target folder is
written. HF_ENDPOINT can contain the URL of another hub. The error messages of huggingface_hub quote whole responses and
are therefore never shown.
"""

import fnmatch
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import sha256
from bukva.corpus.sources.fetching import OnBytes

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoSibling

COMMIT = re.compile(r"[0-9a-f]{40}")
CARD = "README.md"  # the dataset card, which describes the texts of the dataset
TIMEOUT_SECONDS = 60.0
SHOWN = 5  # maximum number of file names in an error message

# huggingface_hub reads these environment variables when it is imported. Xet, a protocol for large files, is disabled
# because it keeps a cache in the home directory.
SETTINGS = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "critical",
}


def fetch_dataset(
    dataset: str, revision: str, pattern: str, is_read: Callable[[Path], bool], folder: Path, on_bytes: OnBytes
) -> None:
    """Download files of a dataset into a new folder, in which they keep their paths.

    After an error, the caller must delete the folder.

    Args:
        dataset: name of the dataset on the hub, as owner/name.
        revision: hash of a commit (40 hexadecimal digits).
        pattern: pattern for the paths of the files. `*` matches any text, including `/`.
        is_read: whether files with the type of a path can be read. Other files are not downloaded.
        folder: the new folder.
        on_bytes: progress callback, called after each file.

    Raises:
        BukvaError: the hub cannot be reached; the dataset, the commit or matching files do not exist; `revision` is not
            the hash of a commit; or a file differs from its digest in the commit.
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
        advice = (
            "Check the network and download.url. A private or gated dataset needs a token in the environment "
            "variable HF_TOKEN. If the dataset is gated, first accept its conditions on this page"
        )
        raise BukvaError(f"{redact_url(api.endpoint)}/datasets/{dataset}: {why}. {advice}.") from None


def _listed(api: "HfApi", dataset: str, revision: str) -> "list[RepoSibling]":
    from huggingface_hub.errors import RevisionNotFoundError

    why, branch = f"{revision!r} is not the hash of a commit (40 digits), so its texts may change", revision or None
    if COMMIT.fullmatch(revision):
        try:
            info = api.dataset_info(dataset, revision=revision, timeout=TIMEOUT_SECONDS, files_metadata=True)
            return info.siblings or []
        except RevisionNotFoundError:
            why, branch = f"{dataset} has no commit {revision}", None
    newest = api.dataset_info(dataset, revision=branch, timeout=TIMEOUT_SECONDS).sha
    raise BukvaError(f"params.yaml, download.url: {why}. Use the newest commit: hf://datasets/{dataset}@{newest}")


def _chosen(
    listed: "list[RepoSibling]", dataset: str, pattern: str, is_read: Callable[[Path], bool]
) -> "list[RepoSibling]":
    names = {file.rfilename: file for file in listed if file.rfilename != CARD}
    matching = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    chosen = sorted(name for name in matching if is_read(Path(name)) and not _is_hidden(name))
    if not chosen:
        known = ", ".join(sorted(matching or names)[:SHOWN]) or "no files"
        why = f"{pattern!r} matches no file of {dataset} that can be read"
        more = " ..." if len(names) > SHOWN else ""
        raise BukvaError(f"params.yaml, download.url: {why}. The dataset has {known}{more}.")
    return [names[name] for name in chosen]


def _is_hidden(name: str) -> bool:
    """Return whether the path `name` has a part that starts with a dot, or may lead outside the target folder."""
    path = PurePosixPath(name)
    return path.is_absolute() or "\\" in name or any(part.startswith(".") for part in path.parts)


def _download(api: "HfApi", dataset: str, revision: str, file: "RepoSibling", folder: Path) -> None:
    api.hf_hub_download(
        dataset,
        file.rfilename,
        repo_type="dataset",
        revision=revision,
        local_dir=folder,
        cache_dir=folder / ".cache",  # without this, the cache in the home directory is searched in spite of local_dir
        etag_timeout=TIMEOUT_SECONDS,
    )
    path = folder / file.rfilename
    expected, actual = (file.lfs.sha256, sha256(path)) if file.lfs else (file.blob_id, _git_blob_id(path))
    if actual != expected:
        why = f"its digest is {actual}, but in the commit it is {expected}"
        raise BukvaError(f"{dataset}, {file.rfilename}: {why}. Run the same command again.")


def _git_blob_id(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
