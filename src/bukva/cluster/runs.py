"""DVC's run cache travels by trial.

`dvc push --run-cache` sends all entries, and `dvc exp run --pull` gets all, so that each of many trials would take
longer than the one before (docs/dev/log.md). So a trial sends the entries of its own stages, in one file, where DVC
does not look, and each machine gets the files that are new since it looked last:

    <remote>/bukva/<commit>/runs/<trial>.json       path in the run cache -> entry
"""

import tempfile
from pathlib import Path
from typing import Any

from bukva.cluster.remote import Remote
from bukva.core.files import read_json, write_json, write_text
from bukva.project.cache import dvc_repo, send_objects

FOLDER = "runs"


def send_runs(folder: Path, commit: str, trial: str) -> None:
    """Send what the stages of a trial have computed.

    Args:
        folder: of its clone, which must be the current one.
        commit: from which the trial started.
        trial: its name.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    entries = _push_objects(folder)
    with tempfile.TemporaryDirectory(prefix="bukva-") as scratch:
        file = Path(scratch) / f"{trial}.json"
        write_json(file, entries)
        Remote().put(file, commit, FOLDER, file.name)


def fetch_runs(project: Path, commit: str) -> None:
    """Get what the trials that started from this commit have computed, as far as it is not here yet.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    seen, remote = project / ".bukva" / FOLDER / commit, Remote()
    here = {file.name for file in seen.glob("*.json")}
    new = sorted(name for name in remote.names(commit, FOLDER) if name.endswith(".json") and name not in here)
    entries: dict[str, str] = {}
    for name in new:
        remote.get(seen / "new" / name, commit, FOLDER, name)
        entries |= read_json(seen / "new" / name)
    if entries:
        _add_entries(project, entries)
    for name in new:  # now nothing of it can be missed
        (seen / "new" / name).rename(seen / name)


def _push_objects(folder: Path) -> dict[str, str]:
    """Send the objects of all stages in the dvc.lock of a clone; returns their entries: path in the run cache -> entry.

    Raises:
        BukvaError: there is no remote, or it cannot be reached.
    """
    with dvc_repo(folder) as repo:
        entries = [entry for stage in repo.index.stages for entry in _entries(repo, stage)]
        send_objects(repo, entries)
        files = [Path(repo.stage_cache._get_cache_path(*entry)) for entry in entries]
        return {
            file.relative_to(repo.stage_cache.cache_dir).as_posix(): file.read_text(encoding="utf-8") for file in files
        }


def _add_entries(folder: Path, entries: dict[str, str]) -> None:
    """Put entries that another machine has sent into the run cache of a project."""
    with dvc_repo(folder) as repo:
        for path, entry in entries.items():
            file = Path(repo.stage_cache.cache_dir) / path
            if not file.exists():
                write_text(file, entry)


def _entries(repo: Any, stage: Any) -> list[tuple[str, str]]:
    """The entries of a stage as its dvc.lock has it: key, and the name of a file."""
    from dvc.stage.cache import _can_hash, _get_stage_hash  # DVC tells it to nobody

    if not _can_hash(stage):
        return []
    key = _get_stage_hash(stage)
    return [(key, file.name) for file in Path(repo.stage_cache._get_cache_dir(key)).glob("*")]
