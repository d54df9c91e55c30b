"""What a trial of a cluster puts into a checkpoint of Tune. While a training goes on, so that another machine goes on:

    journals/<stage>-<id>/journal.jsonl                 of all trainings, as it is after the checkpoint was written
    checkpoints/<training>/<step>-<digest>.safetensors  the newest one, with its fingerprint.json

With an older journal, MLflow would get the points in between twice, at other times. At the end of the trial, for the
driver's project, which then knows it as if it had run there:

    journals/<stage>-<id>/      of all stages, with their artifacts
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
from bukva.tracking.journal import FILE, Journal, journals_root, read_journals

JOURNALS, CHECKPOINTS, RUNS = "journals", "checkpoints", "runs.json"


def journals_of(trial: str, commit: str) -> list[Journal]:
    """The journals of a trial that started from this commit, in the order in which they began; DVC uses names again."""
    return [journal for journal in read_journals(trial) if journal.start["commit"] == commit]


def newest_checkpoint(trial: str, commit: str) -> Path | None:
    """The last checkpoint of the last training of a trial that has one."""
    trainings = [journal.start.get("training_id", "") for journal in reversed(journals_of(trial, commit))]
    found = [
        file for each in trainings if each for file in sorted((checkpoints_root() / each).glob("*.safetensors"))[-1:]
    ]
    return found[0] if found else None


def pack_checkpoint(folder: Path, trial: str, commit: str, checkpoint: Path) -> None:
    """Copy a checkpoint, then the journals that cover it.

    Raises:
        FileNotFoundError: a newer one has replaced it.
    """
    training = folder / CHECKPOINTS / checkpoint.parent.name
    training.mkdir(parents=True)
    for file in (checkpoint.with_name("fingerprint.json"), checkpoint):
        shutil.copyfile(file, training / file.name)
    for journal in journals_of(trial, commit):
        if journal.start.get("training_id"):
            copy = folder / JOURNALS / journal.folder.name / FILE
            copy.parent.mkdir(parents=True)
            lines = (journal.folder / FILE).read_bytes()
            copy.write_bytes(lines[: lines.rfind(b"\n") + 1])  # the last one may still be written


def pack_result(folder: Path, trial: str, commit: str, clone: Path) -> None:
    """Send the objects of a finished trial to DVC's remote, and put the rest into a folder.

    Args:
        clone: in which it ran; it must be the current folder, as DVC wants it.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    for journal in journals_of(trial, commit):
        shutil.copytree(journal.folder, folder / JOURNALS / journal.folder.name)
    with dvc_repo(clone) as repo:
        runs = repo.stage_cache
        entries = [entry for stage in repo.index.stages for entry in _entries(repo, stage)]
        send_objects(repo, entries)
        files = [Path(runs._get_cache_path(*entry)) for entry in entries]
        write_json(folder / RUNS, {str(file.relative_to(runs.cache_dir)): file.read_text("utf-8") for file in files})


def unpack(folder: Path, trial: str) -> None:
    """Put into this project what it lacks; what it has is as new, because the last attempt was here."""
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
    """Put into this project what the last checkpoints of finished trials have."""
    from pyarrow.fs import FileSelector, FileSystem, copy_files

    files, root = FileSystem.from_uri(sweep.storage)
    for trial in trials:
        listed = files.get_file_info(FileSelector(f"{root}/{sweep.name}/{trial}", allow_not_found=True))
        if checkpoints := sorted(each.path for each in listed if each.base_name.startswith("checkpoint_")):
            with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
                copy_files(checkpoints[-1], folder, source_filesystem=files)
                unpack(Path(folder), trial)


def _entries(repo: Any, stage: Any) -> list[tuple[str, str]]:
    """The entries of a stage in the run cache, as its dvc.lock has it: key, and the name of a file."""
    from dvc.stage.cache import _can_hash, _get_stage_hash  # DVC tells it to nobody

    key = _get_stage_hash(stage) if _can_hash(stage) else ""
    return [(key, file.name) for file in Path(repo.stage_cache._get_cache_dir(key)).glob("*")] if key else []
