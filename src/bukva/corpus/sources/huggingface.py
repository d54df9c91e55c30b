"""The files of a dataset on the Hugging Face hub at one commit, each verified by its digest in that commit.

huggingface_hub does the transfers. It gets the token from HF_TOKEN only, sends no telemetry and writes only into the
given folder. HF_ENDPOINT names another hub. Its errors quote whole answers, so none of them is passed on.
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
CARD = "README.md"  # of every dataset; it describes the texts and is none of them
TIMEOUT_SECONDS = 60.0
SHOWN = 5  # names of files in an error

# Read when huggingface_hub is imported. Xet, another protocol for large files, keeps a cache in the user's home.
SETTINGS = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_VERBOSITY": "critical",
}


def fetch_dataset(
    dataset: str, revision: str, pattern: str, is_read: Callable[[Path], bool], folder: Path, on_bytes: OnBytes
) -> None:
    """Download files of a dataset (owner/name) into a new folder, which the caller deletes if this raises.

    They are those of a commit (40 hexadecimal digits) whose type is read, and whose path matches a pattern: * is any
    text, also with /. They keep their paths. `on_bytes` is called after each.

    Raises:
        BukvaError: the dataset, the commit or such files do not exist or cannot be reached, `revision` is no commit, or
            a file has another digest.
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
    except (httpx2.HTTPError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:  # or no hub's answer
        if isinstance(error, OSError) and error.errno:  # the disk
            raise
        status = getattr(getattr(error, "response", None), "status_code", None)
        why = f"the hub answers with status {status}" if status else f"no connection or no hub ({type(error).__name__})"
        advice = (
            "check the network and download.dataset; a private dataset needs HF_TOKEN, and a gated one that you accept "
            "its conditions on this page"
        )
        raise BukvaError(f"{redact_url(api.endpoint)}/datasets/{dataset}: {why}; {advice}.") from None


def _listed(api: "HfApi", dataset: str, revision: str) -> "list[RepoSibling]":
    """The files of a commit.

    Raises:
        BukvaError: the revision is unknown; or a branch, a tag or nothing, which may be other texts tomorrow.
    """
    from huggingface_hub.errors import RevisionNotFoundError

    what, now = f"{revision!r} is not a commit of 40 digits, and what it means may change", revision or None
    if COMMIT.fullmatch(revision):
        try:
            info = api.dataset_info(dataset, revision=revision, timeout=TIMEOUT_SECONDS, files_metadata=True)
            return info.siblings or []
        except RevisionNotFoundError:
            what, now = f"{dataset} has no commit {revision}", None
    newest = api.dataset_info(dataset, revision=now, timeout=TIMEOUT_SECONDS).sha
    raise BukvaError(f"params.yaml, download.revision: {what}; use -S download.revision={newest}, the newest.")


def _chosen(
    listed: "list[RepoSibling]", dataset: str, pattern: str, is_read: Callable[[Path], bool]
) -> "list[RepoSibling]":
    names = {file.rfilename: file for file in listed if file.rfilename != CARD}
    matching = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    chosen = sorted(name for name in matching if is_read(Path(name)) and not _is_hidden(name))
    if not chosen:
        known = ", ".join(sorted(matching or names)[:SHOWN]) or "no files"
        why = f"{pattern!r} matches no file of {dataset} that is read"
        raise BukvaError(f"params.yaml, download.files: {why}; it has {known}{' ...' if len(names) > SHOWN else ''}.")
    return [names[name] for name in chosen]


def _is_hidden(name: str) -> bool:
    """Also whether a name leads outside of the folder."""
    path = PurePosixPath(name)
    return path.is_absolute() or "\\" in name or any(part.startswith(".") for part in path.parts)


def _download(api: "HfApi", dataset: str, revision: str, file: "RepoSibling", folder: Path) -> None:
    api.hf_hub_download(
        dataset,
        file.rfilename,
        repo_type="dataset",
        revision=revision,
        local_dir=folder,
        cache_dir=folder / ".cache",  # although local_dir is used: that of the user's home is looked up otherwise
        etag_timeout=TIMEOUT_SECONDS,
    )
    path = folder / file.rfilename
    expected, actual = (file.lfs.sha256, sha256(path)) if file.lfs else (file.blob_id, _git_blob_id(path))
    if actual != expected:
        why = f"its digest is {actual}, not {expected}, which the commit records; give the same command again"
        raise BukvaError(f"{dataset}, {file.rfilename}: {why}.")


def _git_blob_id(path: Path) -> str:
    """What `git hash-object` prints: the digest by which a commit records a small file."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
