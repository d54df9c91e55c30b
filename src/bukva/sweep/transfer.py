"""The files that a trial of a cluster puts into a checkpoint of Tune.

    journals/<stage>-<id>/      of all stages, with their artifacts

During a training, so that another machine can resume it and show the lost execution as KILLED:

    checkpoints/<training>/<step>-<digest>.safetensors  the newest one, with its fingerprint.json

At the end of the trial, so that the driver's project has the trial as if it had run there:

    runs.json                   path in DVC's run cache -> entry
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bukva.core.files import read_json, write_json, write_text
from bukva.durability.checkpoints import checkpoints_root
from bukva.project.cache import dvc_repo, send_objects
from bukva.sweep.trials import Sweep
from bukva.tracking.journal import Journal, journals_root, read_journals

JOURNALS, CHECKPOINTS, RUNS = "journals", "checkpoints", "runs.json"


def journals_of(trial: str, commit: str) -> list[Journal]:
    """Return the journals of a trial that started from this commit, in the order in which they began.

    The commit distinguishes them, because DVC uses names again.
    """
    return [journal for journal in read_journals(trial) if journal.start["commit"] == commit]


def checkpoint_files() -> set[Path]:
    """Return the checkpoints of all trainings of this project."""
    return set(checkpoints_root().glob("*/*.safetensors"))


def pack_checkpoint(folder: Path, trial: str, commit: str, checkpoint: Path) -> None:
    """Copy a checkpoint and the journals of its trial into a folder.

    Raises:
        FileNotFoundError: a newer checkpoint has replaced it.
    """
    training = folder / CHECKPOINTS / checkpoint.parent.name
    training.mkdir(parents=True)
    for file in (checkpoint.with_name("fingerprint.json"), checkpoint):
        shutil.copyfile(file, training / file.name)
    _pack_journals(folder, trial, commit)


def _pack_journals(folder: Path, trial: str, commit: str) -> None:
    for journal in journals_of(trial, commit):
        unfinished = shutil.ignore_patterns(".*")  # files that a stage is still writing
        shutil.copytree(journal.folder, folder / JOURNALS / journal.folder.name, ignore=unfinished)


def pack_result(folder: Path, trial: str, commit: str, clone: Path) -> None:
    """Send the objects of a finished trial to DVC's remote, and copy the rest into a folder.

    Args:
        folder: where to copy it.
        trial: its name.
        commit: the one from which it started.
        clone: where it ran; DVC requires that it is the current folder.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    _pack_journals(folder, trial, commit)
    with dvc_repo(clone) as repo:
        runs = repo.stage_cache
        entries = [entry for stage in repo.index.stages for entry in _entries(repo, stage)]
        send_objects(repo, entries)
        files = [Path(runs._get_cache_path(*entry)) for entry in entries]
        write_json(folder / RUNS, {str(file.relative_to(runs.cache_dir)): file.read_text("utf-8") for file in files})


def unpack(folder: Path, trial: str) -> None:
    """Copy files that this project does not have. Its own are not older, because then the last attempt was here."""
    for kind, place in ((JOURNALS, journals_root() / trial), (CHECKPOINTS, checkpoints_root())):
        for source in (folder / kind).glob("*"):
            if not list((place / source.name).glob("*.*")):
                shutil.copytree(source, place / source.name, dirs_exist_ok=True)
    if (folder / RUNS).exists():
        with dvc_repo() as repo:
            for path, entry in read_json(folder / RUNS).items():
                if not (file := Path(repo.stage_cache.cache_dir) / path).exists():
                    write_text(file, entry)


def unpack_all(sweep: Sweep, trials: Sequence[str]) -> None:
    """Copy into this project the content of the last checkpoints of finished trials."""
    from pyarrow.fs import FileSelector, FileSystem, copy_files

    files, root = FileSystem.from_uri(sweep.storage)
    for trial in trials:
        listed = files.get_file_info(FileSelector(f"{root}/{sweep.name}/{trial}", allow_not_found=True))
        if checkpoints := sorted(each.path for each in listed if each.base_name.startswith("checkpoint_")):
            with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
                copy_files(checkpoints[-1], folder, source_filesystem=files)
                unpack(Path(folder), trial)


def _entries(repo: Any, stage: Any) -> list[tuple[str, str]]:
    """Return the entries of a stage in the run cache, as its dvc.lock has it: key, and the name of a file."""
    from dvc.stage.cache import _can_hash, _get_stage_hash  # DVC has no public function for this

    key = _get_stage_hash(stage) if _can_hash(stage) else ""
    return [(key, file.name) for file in Path(repo.stage_cache._get_cache_dir(key)).glob("*")] if key else []
