"""Pack the files of a trial on a cluster into a checkpoint of Ray Tune, and unpack them on another machine.

A checkpoint of Tune always contains:

    journals/<stage>-<id>/      journals of all stages (results for MLflow), with artifacts

During a training, the checkpoint also contains these files. Another machine can resume the training from them:

    checkpoints/<training>/<step>-<digest>.safetensors  the newest checkpoint of the training
    checkpoints/<training>/fingerprint.json             everything on which the training depends

At the end of the trial, the checkpoint also contains this file. With it, the project in which `bukva sweep` runs can
use the result as if the trial had run there:

    runs.json                   content of each file that the trial added to DVC's run cache, by path
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
    """Return the journals of a trial (files with results for MLflow), the oldest first.

    The name `trial` is not unique, because several experiments of DVC can have the same name. So the journals must also
    be of an experiment that started from `commit`.
    """
    return [journal for journal in read_journals(trial) if journal.start["commit"] == commit]


def checkpoint_files() -> set[Path]:
    """Return the checkpoint files of all trainings of this project."""
    return set(checkpoints_root().glob("*/*.safetensors"))


def pack_checkpoint(folder: Path, trial: str, commit: str, checkpoint: Path) -> None:
    """Copy a training's checkpoint file and the journals of its trial into `folder`.

    trial: name of the trial.
    commit: commit from which the trial started.
    checkpoint: the checkpoint file.

    Raises:
        FileNotFoundError: a newer checkpoint has replaced the file.
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
    """Push the outputs of a finished trial to the DVC remote.

    Also copy the journals of the trial, and its entries in DVC's run cache, into `folder`.

    Args:
        folder: destination of the copies.
        trial: name of the trial.
        commit: commit from which the trial started.
        clone: git clone in which the trial ran. DVC requires that this is the current folder.

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
    """Copy the files that `pack_checkpoint` or `pack_result` stored in `folder` into this project.

    Journals and checkpoints that already exist in the project are kept. If they exist, the last attempt of the trial
    ran on this machine, so the files in `folder` are not newer.
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
    """Download Tune's last checkpoint of each trial from the storage of a sweep, and unpack it into this project.

    trials: names of the trials.
    """
    from pyarrow.fs import FileSelector, FileSystem, copy_files

    files, root = FileSystem.from_uri(sweep.storage)
    for trial in trials:
        listed = files.get_file_info(FileSelector(f"{root}/{sweep.name}/{trial}", allow_not_found=True))
        if checkpoints := sorted(each.path for each in listed if each.base_name.startswith("checkpoint_")):
            with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
                copy_files(checkpoints[-1], folder, source_filesystem=files)
                unpack(Path(folder), trial)


def _entries(repo: Any, stage: Any) -> list[tuple[str, str]]:
    """Return the entries of DVC's run cache for the current state of a stage."""
    from dvc.stage.cache import _can_hash, _get_stage_hash  # DVC has no public function for this

    key = _get_stage_hash(stage) if _can_hash(stage) else ""
    return [(key, file.name) for file in Path(repo.stage_cache._get_cache_dir(key)).glob("*")] if key else []
