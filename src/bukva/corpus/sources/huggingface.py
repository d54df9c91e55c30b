"""Download files of a dataset from the Hugging Face hub at one commit, and verify their digests.

The library huggingface_hub transfers the files. It takes a token from the environment variable HF_TOKEN only, sends no
telemetry, and writes only into the given folder. The environment variable HF_ENDPOINT can name another hub. The error
messages of huggingface_hub quote whole responses and are therefore never shown.
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
CARD = "README.md"  # the dataset card: it describes the texts and is not one of them
TIMEOUT_SECONDS = 60.0
SHOWN = 5  # number of file names in an error message

# huggingface_hub reads these variables when it is imported. Xet, a protocol for large files, is disabled because it
# keeps a cache in the home directory.
SETTINGS = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "critical",
}


def fetch_dataset(
    dataset: str, revision: str, pattern: str, is_read: Callable[[Path], bool], folder: Path, on_bytes: OnBytes
) -> None:
    """Download files of a dataset into a new folder. If this raises, the caller deletes the folder.

    Args:
        dataset: owner/name.
        revision: hash of a commit (40 hexadecimal digits).
        pattern: only files whose path matches are downloaded; `*` matches any text, including `/`.
        is_read: returns whether files of this type are read; others are not downloaded.
        folder: where the files are written, each with its path in the dataset.
        on_bytes: progress callback, called after each file.

    Raises:
        BukvaError: the dataset, the commit or matching files do not exist or cannot be reached; `revision` is not a
            commit; or a file differs from its digest in the commit.
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
        # KeyError, TypeError, ValueError and AttributeError are raised if the response does not come from a hub
        if isinstance(error, OSError) and error.errno:  # an error of the disk
            raise
        status = getattr(getattr(error, "response", None), "status_code", None)
        no_hub = f"no connection, or no hub ({type(error).__name__})"
        why = f"the hub responded with status {status}" if status else no_hub
        advice = (
            "Check the network and download.dataset. A private or gated dataset needs HF_TOKEN. For a gated one, "
            "first accept its conditions on this page"
        )
        raise BukvaError(f"{redact_url(api.endpoint)}/datasets/{dataset}: {why}. {advice}.") from None


def _listed(api: "HfApi", dataset: str, revision: str) -> "list[RepoSibling]":
    """Return the files of a commit.

    Raises:
        BukvaError: the commit is unknown, or the revision is empty or a branch or tag, whose texts may change later.
    """
    from huggingface_hub.errors import RevisionNotFoundError

    why, branch = f"{revision!r} is not a commit (40 digits), so its texts may change", revision or None
    if COMMIT.fullmatch(revision):
        try:
            info = api.dataset_info(dataset, revision=revision, timeout=TIMEOUT_SECONDS, files_metadata=True)
            return info.siblings or []
        except RevisionNotFoundError:
            why, branch = f"{dataset} has no commit {revision}", None
    newest = api.dataset_info(dataset, revision=branch, timeout=TIMEOUT_SECONDS).sha
    raise BukvaError(f"params.yaml, download.revision: {why}. Use the newest commit: -S download.revision={newest}")


def _chosen(
    listed: "list[RepoSibling]", dataset: str, pattern: str, is_read: Callable[[Path], bool]
) -> "list[RepoSibling]":
    """Return the files that match a pattern and are of a type that is read, sorted by name.

    Raises:
        BukvaError: no file matches.
    """
    names = {file.rfilename: file for file in listed if file.rfilename != CARD}
    matching = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    chosen = sorted(name for name in matching if is_read(Path(name)) and not _is_hidden(name))
    if not chosen:
        known = ", ".join(sorted(matching or names)[:SHOWN]) or "no files"
        why = f"{pattern!r} matches no file of {dataset} of a type that is read"
        more = " ..." if len(names) > SHOWN else ""
        raise BukvaError(f"params.yaml, download.files: {why}. The dataset has {known}{more}.")
    return [names[name] for name in chosen]


def _is_hidden(name: str) -> bool:
    """Return whether a path has a part that starts with a dot, or may lead outside the folder."""
    path = PurePosixPath(name)
    return path.is_absolute() or "\\" in name or any(part.startswith(".") for part in path.parts)


def _download(api: "HfApi", dataset: str, revision: str, file: "RepoSibling", folder: Path) -> None:
    api.hf_hub_download(
        dataset,
        file.rfilename,
        repo_type="dataset",
        revision=revision,
        local_dir=folder,
        cache_dir=folder / ".cache",  # otherwise the cache in the home directory is searched, in spite of local_dir
        etag_timeout=TIMEOUT_SECONDS,
    )
    path = folder / file.rfilename
    expected, actual = (file.lfs.sha256, sha256(path)) if file.lfs else (file.blob_id, _git_blob_id(path))
    if actual != expected:
        why = f"its digest is {actual}, but the commit records {expected}"
        raise BukvaError(f"{dataset}, {file.rfilename}: {why}. Run the same command again.")


def _git_blob_id(path: Path) -> str:
    """Return the digest by which a commit records a small file, as `git hash-object` prints it."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
