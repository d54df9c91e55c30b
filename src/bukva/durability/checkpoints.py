"""Write, find and remove the checkpoints of a training run (bukva.durability describes the files)."""

import contextlib
import hashlib
import io
import math
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from bukva.core.errors import BukvaError
from bukva.core.files import atomic_file, project_root, read_json, write_json
from bukva.core.words import count
from bukva.project.lock import digest, outputs, read_lock
from bukva.project.stages import Fingerprint, differences

KEPT = 2  # number of checkpoints to keep for each run
DONE, FINGERPRINT = "done.json", "fingerprint.json"
MAX_BYTES = 4 << 30  # total size of all checkpoints; above it, those of ended runs are removed


class Checkpoints:
    """The checkpoints of one training run, which is identified by its stage and its fingerprint.

    Two processes may run the same training at the same time, for example in two queued experiments that differ only in
    later stages. Only the first process writes checkpoints. After it has ended, the second process writes them.
    """

    def __init__(self, stage: str, fingerprint: Fingerprint) -> None:
        self.stage, self.fingerprint = stage, fingerprint
        # in the original repository, also if DVC runs a copy of it
        self.root = project_root() / ".bukva" / "checkpoints"
        self.folder = self.root / f"{stage}-{digest(fingerprint)}"
        self.seconds = seconds_between()
        self.step: int | None = None  # step of the checkpoint that was last written or read; None before that
        self._lock = FileLock(self.folder / "lock", blocking=False)
        self._reported = ""  # the problem that was reported last
        self._is_full = False  # whether it was reported that no more checkpoints can be removed

    def clear_finished(self) -> None:
        """Remove the checkpoints of finished runs of this stage, except if this run will write the same outputs again.

        This is the case if dvc.lock does not have them, because DVC was killed before it recorded them.
        """
        for done in self.root.glob(f"{self.stage}-*/{DONE}"):
            finished = read_json(done)
            if done.parent != self.folder or outputs(read_lock()).get(finished["path"]) == finished["md5"]:
                shutil.rmtree(done.parent, ignore_errors=True)

    def finish(self, curve: Path) -> None:
        """Mark the run as finished. Without a DVC process that will record its outputs, remove the checkpoints."""
        if "DVC_STAGE" not in os.environ:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        md5 = hashlib.md5(curve.read_bytes(), usedforsecurity=False).hexdigest()  # dvc.lock has MD5 digests
        with contextlib.suppress(OSError):  # for example, the disk is full
            write_json(self.folder / DONE, {"path": curve.as_posix(), "md5": md5})

    def write(self, step: int, state: Any) -> None:
        """Write a checkpoint of `state`, the training state after `step` updates. Keep only the last KEPT checkpoints.

        If it fails, a message on stderr gives the reason, once.
        """
        try:
            self._lock_folder()
            torch.save(state, content := io.BytesIO())
            with atomic_file(self.folder / f"{step:09d}-{_digest(content.getvalue())}.pt") as unfinished:
                unfinished.write_bytes(content.getvalue())
        except OSError as error:
            why = str(error.strerror)  # "None" if the folder is locked
            message = f"could not save the checkpoint at step {step} ({why}). Training continues and will retry."
            if isinstance(error, Timeout):
                message = "another process runs the same training and saves checkpoints, so this process saves none."
            if why != self._reported:
                print(f"{self.stage}: {message}", file=sys.stderr, flush=True)
            self._reported = why
            return
        self.step, self._reported = step, ""
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another process may remove the same files
            self._make_room()

    def last(self) -> bytes:
        """Lock the folder, and return the content of its latest checkpoint that `unpack` can read, or b"".

        Damaged checkpoints are reported on stderr, renamed to *.broken and skipped.
        """
        files = self._files()
        with contextlib.suppress(OSError):  # another process runs the same training
            if files:  # from now on, another training must not remove them
                self._lock_folder()
        for file in reversed(files):
            step, _, expected = file.stem.partition("-")
            try:
                content = file.read_bytes()
                if _digest(content) != expected:
                    raise ValueError("the content does not match the digest in the file name")
                unpack(content)
            except (OSError, ValueError) as error:
                renamed = file.replace(file.with_suffix(".broken"))
                what = f"A checkpoint cannot be read, so it was skipped and renamed to {renamed}. Reason: {error}"
                print(what, file=sys.stderr)
                continue
            self.step = int(step)
            return content
        return b""

    def fresh_start_message(self) -> str:
        """Return why an interrupted training of this stage restarts at step 0, or "" if there is none or no reason."""
        if list(self.folder.glob("*.broken")):
            return "Starting at step 0, because no checkpoint of the interrupted training can be read."
        others = set(self.root.glob(f"{self.stage}-*/{FINGERPRINT}")) - {self.folder / FINGERPRINT}
        if others:
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):  # a damaged file
                changed = differences(read_json(max(others, key=os.path.getmtime)), self.fingerprint)
                return f"Starting at step 0, because the interrupted training was different: {changed}"
        return ""

    def _lock_folder(self) -> None:
        """Raise Timeout if another process has locked the folder."""
        if not self._lock.is_locked:
            self._lock.acquire()
            for leftover in self.folder.glob(".*.part"):  # left by a process that was killed while it wrote
                leftover.unlink(missing_ok=True)
            write_json(self.folder / FINGERPRINT, self.fingerprint)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.pt"))  # names start with the step

    def _make_room(self) -> None:
        """Remove checkpoints of ended runs, except of the one interrupted last, until all fit into MAX_BYTES."""
        sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in self.root.glob("*/")}
        others = sorted(sizes.keys() - {self.folder}, key=os.path.getmtime)  # oldest first
        others.sort(key=lambda folder: not (folder / DONE).exists())  # finished ones before those
        excess, ended, removed = sum(sizes.values()) - MAX_BYTES, list[Path](), list[str]()
        with contextlib.ExitStack() as locks:
            for folder in others if excess > 0 else ():
                with contextlib.suppress(Timeout):  # a training runs
                    locks.enter_context(FileLock(folder / "lock", blocking=False))
                    ended.append(folder)
            for folder in ended[:-1]:
                if excess > 0:
                    shutil.rmtree(folder, ignore_errors=True)
                    excess -= sizes[folder]
                    removed.append(folder.name)
        exceed = f"checkpoints together exceed {MAX_BYTES >> 30} GiB"
        if removed:
            print(
                f"Removed the checkpoints of {count(len(removed), 'ended training')}, because all {exceed}: "
                f"{', '.join(removed)}. To keep others, resume their trainings, or move them out of {self.root}.",
                file=sys.stderr,
            )
        if excess > 0 and not self._is_full:
            print(f"All {exceed}, but stay, because their trainings run or were interrupted last.", file=sys.stderr)
        self._is_full = excess > 0


def unpack(content: bytes) -> Any:
    """Return the training state in a checkpoint. ValueError: it is no checkpoint. Nothing in it is run as code."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about pickles of other programs
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception:  # of many types; their messages advise to load the file without `weights_only`
        raise ValueError("the content is not a checkpoint") from None


def seconds_between() -> float:
    text = os.environ.get("BUKVA_CHECKPOINT_SECONDS", "30")
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise BukvaError(
        f"BUKVA_CHECKPOINT_SECONDS: {text!r} is not a number of seconds. Use a number such as 30, or 0 to save "
        "a checkpoint after every update."
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
