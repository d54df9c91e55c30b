"""Call DVC's Python API to compute digests, find outputs in DVC's cache, and push results to the DVC remote."""

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import project_root


@contextlib.contextmanager
def dvc_repo(folder: Path | None = None) -> Iterator[Any]:
    """Open the DVC repository in `folder`, by default in the project. Errors of DVC become a BukvaError."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(folder or project_root())) as repo:
            yield repo
    except (DvcException, OSError) as error:
        raise BukvaError(f"DVC: {' '.join(str(error).split()).rstrip('.')}.") from None


def digests(paths: Iterable[str], commit: str = "") -> dict[str, str]:
    """Return the digest of each path as DVC would record it now, by path. A path that does not exist has digest "".

    With `commit`, paths in the project have the digests of the files in this commit.
    """
    from dvc_data.hashfile.build import build
    from dvc_data.hashfile.tree import Tree

    def md5(path: str) -> str:
        # DVC does not resolve `..` but reads it as the name of a folder
        full = os.path.normpath(Path(repo.root_dir) / path)
        if not repo.fs.exists(full):
            return ""
        _, _, tree = build(repo.cache.local, full, repo.fs, "md5", ignore=repo.dvcignore, dry_run=True)
        if commit and isinstance(tree, Tree):  # in which `build` ignores no files
            is_ignored = repo.dvcignore.is_ignored_file
            tree = Tree.from_list([each for each in tree.as_list() if not is_ignored(f"{full}/{each['relpath']}")])
            tree.digest()
        return str(tree.hash_info.value)

    with dvc_repo(Path()) as repo:
        now = {path: md5(path) for path in paths if not commit or Path(path).is_absolute()}
        with repo.switch(commit) if commit else contextlib.nullcontext():
            return now | {path: md5(path) for path in paths if path not in now}


def cached_files(digest: str) -> dict[str, Path]:
    """Find the files of the output with this digest in DVC's cache; {} if the cache lacks any of them.

    The keys are the paths in the output, or "." if the output is a single file.
    """
    folder = _cache_folder(project_root())
    files = {path: folder / md5[:2] / md5[2:] for path, md5 in _listed(digest).items()}
    return files if all(file.is_file() for file in files.values()) else {}


def _listed(digest: str) -> dict[str, str]:
    """Return the digest of each file of an output, by path; {} if the cache lacks the list of the files."""
    if not digest.endswith(".dir"):
        return {".": digest}
    # under the digest of a folder, the cache has a JSON list of the files in the folder
    files = _cache_folder(project_root()) / digest[:2] / digest[2:]
    return {item["relpath"]: item["md5"] for item in json.loads(files.read_bytes())} if files.is_file() else {}


@functools.cache
def _cache_folder(root: Path) -> Path:
    """Find DVC's cache by its configuration, because opening a repository takes half a second."""
    from dvc.config import Config, ConfigError

    try:
        configured = Config(str(root / ".dvc"))["cache"].get("dir")
    except ConfigError as error:
        raise BukvaError(f"DVC: {error}.") from None
    return Path(configured or root / ".dvc" / "cache") / "files" / "md5"


# ---- the remote


def has_remote() -> bool:
    with dvc_repo() as repo:
        return bool(repo.config["core"].get("remote"))


def fetch(digests: Iterable[str]) -> str:
    """Download the outputs with these digests from the DVC remote. Return why some are missing ("and ..."), or "".

    `dvc fetch` is not used, because it reads the remote from the commit of the experiment, not from the checkout.
    """
    from dvc_data.hashfile.hash_info import HashInfo

    missing = [digest for digest in digests if not cached_files(digest)]
    if missing and not has_remote():
        return "and this checkout has no DVC remote"
    try:
        with dvc_repo() as repo:
            repo.cloud.pull([HashInfo("md5", digest) for digest in missing])  # of a folder: only the list of its files
            repo.cloud.pull([HashInfo("md5", md5) for digest in missing for md5 in _listed(digest).values()])
    except Exception as error:  # the client of each kind of remote has errors of its own
        return f"and cannot be fetched ({str(error).rstrip('.')})"
    return "" if all(map(cached_files, missing)) else "and not on the DVC remote"


def push() -> tuple[int, int]:
    """Push DVC's run cache, and all outputs that the run cache lists, to the DVC remote.

    `dvc push --run-cache` only pushes the outputs in the current dvc.lock, and none with `cache: false`, so a clone
    would run stages again. Return the numbers of stage runs in the run cache, and of objects that the remote did not
    have.
    """
    with dvc_repo() as repo:
        entries, cache = repo.stage_cache.push(None), repo.cache.local
        used = repo.stage_cache.get_used_objs(entries)
        cached = {hash_info for objects in used.values() for hash_info in objects if cache.exists(hash_info.value)}
        sent, failed = repo.cloud.push(cached)
    if failed:
        raise BukvaError(
            f"push: {len(failed)} of {len(cached)} objects could not be sent to the remote. Run the same command again."
        )
    return len(entries), len(sent)
