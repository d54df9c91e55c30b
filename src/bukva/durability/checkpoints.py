"""The checkpoints of one training on disk (layout: bukva.durability)."""

import contextlib
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

from filelock import FileLock, Timeout
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError

from bukva.core.errors import BukvaError
from bukva.core.files import atomic_file, project_root, read_json, write_json
from bukva.durability.packing import pack, unpack
from bukva.project.lock import digest, outputs, read_lock
from bukva.project.stages import Fingerprint, differences

KEPT = 2
DONE = "done.json"  # the curve of a finished training, beside its last checkpoint
MAX_BYTES = 4 << 30  # of all trainings together; those that were interrupted longest ago are removed first
DIGITS = 16  # of a digest, in the name of a file or a folder

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError)


class Checkpoints:
    """The checkpoints of the training of a stage with this fingerprint, in a folder whose name no other training has.

    Two processes may train the same thing (two queued experiments that differ in later stages): the first one writes,
    and the other takes over when the first is gone.

    Raises:
        BukvaError: BUKVA_CHECKPOINT_SECONDS is not a number of seconds.
    """

    def __init__(self, stage: str, fingerprint: Fingerprint) -> None:
        self.stage, self.fingerprint = stage, fingerprint
        self.folder = checkpoints_root() / f"{stage}-{digest(fingerprint)}"
        self.seconds = seconds_between()
        self.step: int | None = None  # of the last one that was written or read
        self._lock = FileLock(self.folder / "lock", blocking=False)
        self._reported = ""

    def clear_finished(self) -> None:
        """Remove those of finished trainings of this stage, because a new one starts.

        Not its own if dvc.lock lacks their outputs: then DVC was killed before it recorded them, and has deleted them.
        """
        for done in checkpoints_root().glob(f"{self.stage}-*/{DONE}"):
            finished = read_json(done)
            if done.parent != self.folder or outputs(read_lock()).get(finished["path"]) == finished["md5"]:
                shutil.rmtree(done.parent, ignore_errors=True)

    def finish(self, curve: Path) -> None:
        """The outputs are written: keep the last checkpoint until the next training of this stage starts."""
        if "DVC_STAGE" not in os.environ:  # no DVC runs this stage, and none will record its outputs
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        md5 = hashlib.md5(curve.read_bytes(), usedforsecurity=False).hexdigest()  # DVC's choice
        with contextlib.suppress(OSError):  # a full disk
            write_json(self.folder / DONE, {"path": curve.as_posix(), "md5": md5})

    def write(self, step: int, state: Any) -> bool:
        """Write the state after `step` updates and remove older checkpoints; returns whether that succeeded.

        A checkpoint that cannot be written is reported once, and training continues.
        """
        try:
            if not self._is_ours():
                return False
            content = pack(state)
            with atomic_file(self.folder / f"{step:09d}-{_digest(content)}.safetensors") as unfinished:
                unfinished.write_bytes(content)
        except OSError as error:
            why = str(error.strerror)
            self._report(why, f"no checkpoint at step {step} ({why}); training continues, and the next one is tried")
            return False
        self.step, self._reported = step, ""
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another process may remove some at the same time
            _make_room(self.folder)
        return True

    def last(self) -> bytes:
        """The content of the last good checkpoint; empty if there is none.

        A damaged one is renamed and reported in a sentence; then the one before it is tried.
        """
        for file in reversed(self._files()):
            try:
                content = file.read_bytes()
                if _digest(content) != file.stem.partition("-")[2]:
                    raise ValueError("its bytes are not those that were written")
                unpack(content)
            except UNREADABLE as error:
                aside = file.with_suffix(".broken")
                file.replace(aside)
                print(f"{aside}: set aside, not a checkpoint of this training ({error})", file=sys.stderr)
                continue
            self.step = int(file.name.partition("-")[0])
            return content
        return b""

    def why_none(self) -> str:
        """Why an interrupted training starts from the start; empty if nothing was interrupted."""
        if list(self.folder.glob("*.broken")):
            return "from the start: none of its checkpoints is whole"
        others = set(checkpoints_root().glob(f"{self.stage}-*/fingerprint.json")) - {self.folder / "fingerprint.json"}
        if others:
            with contextlib.suppress(*UNREADABLE):
                changed = differences(read_json(max(others, key=os.path.getmtime)), self.fingerprint)
                return f"from the start: since the interrupted training, {changed}"
        return ""

    def _is_ours(self) -> bool:
        if not self._lock.is_locked:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout:
                self._report("another", "another process trains the same, and saves the checkpoints for both")
                return False
            for leftover in self.folder.glob(".*.part"):  # of a process that was killed while it wrote
                leftover.unlink(missing_ok=True)
            write_json(self.folder / "fingerprint.json", self.fingerprint)
        return True

    def _report(self, trouble: str, sentence: str) -> None:
        """Print a sentence, unless it is the same trouble as before."""
        if trouble != self._reported:
            print(f"{self.stage}: {sentence}", file=sys.stderr, flush=True)
        self._reported = trouble

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors"))  # in the order of their steps


def checkpoints_root() -> Path:
    """Where all checkpoints are: in the original repository, also for an experiment that runs in a snapshot."""
    return project_root() / ".bukva" / "checkpoints"


def seconds_between() -> float:
    """How often to save: every 30 seconds, unless BUKVA_CHECKPOINT_SECONDS is set.

    Raises:
        BukvaError: BUKVA_CHECKPOINT_SECONDS is not a number of seconds.
    """
    text = os.environ.get("BUKVA_CHECKPOINT_SECONDS", "30")
    try:
        return TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)]).validate_python(text)
    except ValidationError:
        raise BukvaError(
            f"BUKVA_CHECKPOINT_SECONDS: {text!r} is not a number of seconds; use 30, or 0 for every update."
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _make_room(ours: Path) -> None:
    """Remove other trainings' checkpoints, oldest first, while all together exceed MAX_BYTES."""
    folders = checkpoints_root().glob("*/")
    sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in folders}
    for folder in sorted(sizes.keys() - {ours}, key=os.path.getmtime):
        if sum(sizes.values()) > MAX_BYTES:
            print(f"{folder}: removed, because all checkpoints together exceed {MAX_BYTES >> 30} GiB", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]
