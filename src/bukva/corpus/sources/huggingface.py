"""The files of a dataset on the Hugging Face hub at one commit, each verified by its digest in that commit.

huggingface_hub does the transfers. It gets the token from HF_TOKEN only, sends no telemetry and writes only into the
given folder. HF_ENDPOINT names another hub. Its errors quote whole answers, so none of them is passed on.
"""

import fnmatch
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import sha256
from bukva.corpus.sources.fetching import BACKOFF_SECONDS, RETRIES, OnBytes, UnreachableError

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import DatasetInfo, RepoSibling

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
    """Download files of a dataset into a new folder, which the caller deletes if this raises.

    Args:
        dataset: owner/name.
        revision: a commit, 40 hexadecimal digits.
        pattern: which files, by their path in the dataset; * is any text, also with /.
        is_read: whether a file is of a type that is read; others are not downloaded.
        folder: where the files appear under their paths.
        on_bytes: called after each file.

    Raises:
        UnreachableError: no connection, or it breaks repeatedly.
        BukvaError: the dataset, the commit or such files do not exist, the hub does not give them without a (another)
            token, `revision` is no commit, or a file has another digest.
    """
    os.environ.update(SETTINGS)
    from huggingface_hub import HfApi

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=os.environ.get("HF_TOKEN") or False)
    if not COMMIT.fullmatch(revision):
        raise _not_a_commit(api, dataset, revision)
    files = _chosen(_described(api, dataset, revision), dataset, pattern, is_read)
    total, done = sum(file.size or 0 for file in files), 0
    for file in files:
        _download(api, dataset, revision, file, folder)
        done += file.size or 0
        on_bytes(done, total)


def _not_a_commit(api: "HfApi", dataset: str, revision: str) -> BukvaError:
    """The error for a branch, a tag or nothing: all of them may be other texts tomorrow."""
    now = _described(api, dataset, revision or None).sha
    what = f"{revision!r} is not a commit of 40 digits" if revision else "is empty"
    why = f"{what}, and what it means may change; use the commit that it means now: -S download.revision={now}"
    return BukvaError(f"params.yaml, download.revision: {why}")


def _described(api: "HfApi", dataset: str, revision: str | None) -> "DatasetInfo":
    """What the hub knows of a dataset, its files included; requested again while the connection fails."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

    with _sentences(api, dataset):
        for retry in range(RETRIES + 1):
            try:
                return api.dataset_info(dataset, revision=revision, timeout=TIMEOUT_SECONDS, files_metadata=True)
            except RevisionNotFoundError:
                if revision is None:
                    raise
                now = _described(api, dataset, None).sha
                why = f"{dataset} has no {revision!r}; its newest commit is {now}"
                raise BukvaError(f"params.yaml, download.revision: {why}.") from None
            except (httpx2.TransportError, HfHubHTTPError) as error:
                if retry == RETRIES or not _may_pass(error):
                    raise
                time.sleep(BACKOFF_SECONDS * 2**retry if retry else 0)
    raise AssertionError("the last retry returns or raises")


def _may_pass(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    response = getattr(error, "response", None)
    return response is None or response.status_code in (429, 500, 502, 503, 504)


def _chosen(info: "DatasetInfo", dataset: str, pattern: str, is_read: Callable[[Path], bool]) -> "list[RepoSibling]":
    names = {file.rfilename: file for file in info.siblings or [] if file.rfilename != CARD}
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
    with _sentences(api, dataset):
        # a cache of its own, although local_dir is used: that of the user's home is looked up otherwise
        api.hf_hub_download(
            dataset,
            file.rfilename,
            repo_type="dataset",
            revision=revision,
            local_dir=folder,
            cache_dir=folder / ".cache",
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


@contextmanager
def _sentences(api: "HfApi", dataset: str) -> Iterator[None]:
    """Turn the errors of huggingface_hub into sentences that say what to do."""
    import httpx2
    from huggingface_hub import errors

    hub = redact_url(api.endpoint)
    page = f"{hub}/datasets/{dataset}"
    again = "give the same command again"
    try:
        yield
    except errors.HFValidationError:
        raise BukvaError(f"params.yaml, download.dataset: {dataset!r} is not the name of a dataset.") from None
    except errors.OfflineModeIsEnabled:
        raise UnreachableError(f"{page}: HF_HUB_OFFLINE forbids the network; unset it.") from None
    except errors.GatedRepoError:
        why = "is given only to those who accepted its conditions; accept them on that page, and set HF_TOKEN"
        raise BukvaError(f"{page}: {why} to a token of yours (environment variable).") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 404):  # without a token the hub answers 401 for what does not exist, too
            why = "does not exist, or is private; check download.dataset, or set HF_TOKEN to a token that may read it"
            raise BukvaError(f"{page}: {why} (environment variable).") from None
        advice = "check HF_TOKEN (environment variable)" if status == 403 else again
        raise UnreachableError(f"{page}: the hub answers with status {status}; {advice}.") from None
    except (httpx2.HTTPError, errors.LocalEntryNotFoundError) as error:
        why = f"no connection, or it broke ({type(error).__name__})"
        raise UnreachableError(f"{page}: {why}; check the network, then {again}.") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        why = "answers, but not as a Hugging Face hub does; check the network and HF_ENDPOINT"
        raise UnreachableError(f"{hub}: {why}.") from None
    except OSError as error:
        if error.errno:  # the disk
            raise
        raise UnreachableError(f"{page}: a file is incomplete; {again}.") from None
