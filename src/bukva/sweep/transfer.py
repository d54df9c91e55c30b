"""Files that a trial of a cluster stores in a checkpoint of Tune.

Always:

    journals/<stage>-<id>/      journals of all stages, with artifacts

During a training, so that another machine can resume it and show the lost execution as KILLED:

    checkpoints/<training>/<step>-<digest>.safetensors  the newest checkpoint, with its fingerprint.json

At the end of the trial, so that the driver's project can use the result as if the trial had run there:

    runs.json                   mapping from paths in DVC's run cache to their content
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
    """Return the journals of a trial that started from this commit, oldest first.

    The commit is needed because DVC reuses the names of experiments.
    """
    return [journal for journal in read_journals(trial) if journal.start["commit"] == commit]


def checkpoint_files() -> set[Path]:
    """Return the checkpoints of all trainings of this project."""
    return set(checkpoints_root().glob("*/*.safetensors"))


def pack_checkpoint(folder: Path, trial: str, commit: str, checkpoint: Path) -> None:
    """Copy a checkpoint and the journals of a trial into a folder.

    Raises:
        FileNotFoundError: a newer checkpoint has replaced this one.
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
    """Push the outputs of a finished trial to the DVC remote, and copy journals and run cache entries into a folder.

    Args:
        folder: destination of the copies.
        trial: name of the trial.
        commit: commit from which the trial started.
        clone: clone in which the trial ran. It must be the current folder, as DVC requires.

    Raises:
        BukvaError: the project has no DVC remote, or the remote does not answer.
    """
    _pack_journals(folder, trial, commit)
    with dvc_repo(clone) as repo:
        runs = repo.stage_cache
        entries = [entry for stage in repo.index.stages for entry in _entries(repo, stage)]
        send_objects(repo, entries)
        files = [Path(runs._get_cache_path(*entry)) for entry in entries]
        write_json(folder / RUNS, {str(file.relative_to(runs.cache_dir)): file.read_text("utf-8") for file in files})


def unpack(folder: Path, trial: str) -> None:
    """Copy the files that `pack_checkpoint` or `pack_result` stored into this project.

    Existing journals and checkpoints are kept: if this machine has some, it made the last attempt, so they are not
    older.
    """
    for kind, target in ((JOURNALS, journals_root() / trial), (CHECKPOINTS, checkpoints_root())):
        for source in (folder / kind).glob("*"):
            if not list((target / source.name).glob("*.*")):
                shutil.copytree(source, target / source.name, dirs_exist_ok=True)
    if (folder / RUNS).exists():
        with dvc_repo() as repo:
            for path, entry in read_json(folder / RUNS).items():
                if not (file := Path(repo.stage_cache.cache_dir) / path).exists():
                    write_text(file, entry)


def unpack_all(sweep: Sweep, trials: Sequence[str]) -> None:
    """Unpack the last checkpoint of each trial into this project."""
    from pyarrow.fs import FileSelector, FileSystem, copy_files

    files, root = FileSystem.from_uri(sweep.storage)
    for trial in trials:
        listed = files.get_file_info(FileSelector(f"{root}/{sweep.name}/{trial}", allow_not_found=True))
        if checkpoints := sorted(each.path for each in listed if each.base_name.startswith("checkpoint_")):
            with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
                copy_files(checkpoints[-1], folder, source_filesystem=files)
                unpack(Path(folder), trial)


def _entries(repo: Any, stage: Any) -> list[tuple[str, str]]:
    """Return the run cache entries for the stage's current state, each as its key and file name."""
    from dvc.stage.cache import _can_hash, _get_stage_hash  # DVC has no public function for this

    key = _get_stage_hash(stage) if _can_hash(stage) else ""
    return [(key, file.name) for file in Path(repo.stage_cache._get_cache_dir(key)).glob("*")] if key else []
