"""Checkpoints: where a training stands, on the disk, so that whatever ends it costs the updates since the last one.

They lie outside of what DVC knows, which deletes the outputs of a stage before it runs it: one folder for each thing
that can be trained, named by the digest of all that its result depends on (bukva.pipeline). So a training that was
interrupted finds its own, one whose parameters, text or code have changed finds none, and a snapshot of a queued
experiment finds that of the checkout.

    <project root>/.bukva/checkpoints/<stage>-<digest>/
        <step>-<digest of the file>.safetensors     the last two
        identity.json                               all that the result depends on, to tell what has changed
        lock                                        held by the process that writes here

A file is a safetensors file and never unpickled; its name holds its digest, so that a torn one is known.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from bukva import pipeline
from bukva.errors import BukvaError
from bukva.files import atomic_file, read_json, write_json
from bukva.params import Params
from bukva.pipeline import Identity
from bukva.training.leftovers import DIGITS, clear_if_recorded, folder_of, root

VERSION = 1
KEPT = 2
SECONDS = 30.0  # between two, where BUKVA_CHECKPOINT_SECONDS does not say otherwise
MOST_BYTES = 4 << 30  # of all trainings together; those that were interrupted longest ago make room

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError)


class Checkpoints:
    """The checkpoints of one training.

    Two processes may train the same thing (two queued experiments that differ behind it): the first one writes, and
    the other does once the first is gone.
    """

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.folder, self.identity, self.seconds = folder, identity, seconds()
        self.step: int | None = None  # of the last one that was written or read
        self._lock = FileLock(folder / "lock", blocking=False)
        self._trouble = ""

    @classmethod
    def of(cls, stage: str, params: Params) -> "Checkpoints":
        """Those of what a stage makes of these parameters, and of the text and the code that are there.

        Raises:
            BukvaError: what is there cannot be read, or BUKVA_CHECKPOINT_SECONDS is no number of seconds.
        """
        identity = pipeline.identity(stage, params)
        folder = folder_of(stage, identity)
        clear_if_recorded(stage, folder)  # it was done; this is another one, dvc repro -f for example
        return cls(folder, identity)

    @property
    def name(self) -> str:
        """What this training is known by: no other parameters, text or code make the same."""
        return self.folder.name

    def __bool__(self) -> bool:
        """Whether there is one to go on from, as far as names tell."""
        return bool(self._files())

    def save(self, step: int, state: Any) -> bool:
        """Write where the training stands after `step` updates, and let older ones go; whether that succeeded.

        A disk that takes none costs the training its safety, which is told once, and never the training.
        """
        try:
            if not self._is_ours():
                return False
            content = pack(state)
            name = f"{step:09d}-{hashlib.sha256(content).hexdigest()[:DIGITS]}.safetensors"
            with atomic_file(self.folder / name) as part:
                part.write_bytes(content)
        except OSError as error:
            why = str(error.strerror)
            self._tell(why, f"no checkpoint at step {step} ({why}); training goes on, and the next one is tried")
            return False
        self.step, self._trouble = step, ""
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody else may be clearing up
            _make_room(self.folder)
        return True

    def last(self, misfit: Callable[[Any], str]) -> bytes:
        """The last good one, or nothing.

        One that is torn, of another version or of another shape is renamed, and told in a sentence; then the one
        before it counts.

        Args:
            misfit: what keeps a state from being one of this training, or nothing.
        """
        for file in reversed(self._files()):
            try:
                content = _intact(file)
                state = unpack(content)
                if fault := misfit(state):
                    raise ValueError(fault)
            except UNREADABLE as error:
                aside = file.with_suffix(".broken")
                file.replace(aside)
                print(f"{aside}: set aside, for it is no checkpoint of this training ({error})", file=sys.stderr)
                continue
            self.step = int(file.name.partition("-")[0])
            return content
        return b""

    def why_none(self) -> str:
        """Why there is nothing to go on from."""
        if list(self.folder.glob("*.broken")):
            return "none of its checkpoints is whole"
        others = [file for file in root().glob(f"{self._stage}-*/identity.json") if file.parent != self.folder]
        for file in sorted(others, key=_written_at, reverse=True)[:1]:
            with contextlib.suppress(*UNREADABLE):
                return f"since the one that was interrupted, {pipeline.differences(read_json(file), self.identity)}"
        return "nothing was interrupted"

    def _is_ours(self) -> bool:
        if not self._lock.is_locked:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire()
            except Timeout:
                self._tell("another", "another process trains the same, and keeps its checkpoints for both")
                return False
            for leftover in self.folder.glob(".*.part"):  # of a process that was killed while it wrote
                leftover.unlink(missing_ok=True)
            write_json(self.folder / "identity.json", self.identity)
        return True

    def _tell(self, trouble: str, sentence: str) -> None:
        """Say it, unless this trouble is no news."""
        if trouble != self._trouble:
            print(f"{self._stage}: {sentence}", file=sys.stderr, flush=True)
        self._trouble = trouble

    @property
    def _stage(self) -> str:
        return self.folder.name.rpartition("-")[0]

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors"))  # in the order of their steps


def seconds() -> float:
    """How often to save.

    Raises:
        BukvaError: BUKVA_CHECKPOINT_SECONDS is no number of seconds.
    """
    text = os.environ.get("BUKVA_CHECKPOINT_SECONDS", str(SECONDS))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise BukvaError(f"BUKVA_CHECKPOINT_SECONDS: {text!r} is no number of seconds; 30 would do.")
    return value


def pack(tree: Any) -> bytes:
    """Nested dictionaries and lists of tensors, numbers, words and None, as the bytes of a safetensors file."""
    tensors: dict[str, Tensor] = {}
    structure = json.dumps({"version": VERSION, "tree": _structure(tree, tensors)})
    return save(tensors, {"structure": structure})


def unpack(content: bytes) -> Any:
    """What `pack` packed; tuples have become lists.

    Raises:
        ValueError: it is of another version.
        SafetensorError: it is no safetensors file.
    """
    size = int.from_bytes(content[:8], "little")
    tensors = load(content)  # refuses a header that lies
    structure = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["structure"])
    if structure["version"] != VERSION:
        raise ValueError(f"version {structure['version']}, not {VERSION}")
    return _tree(structure["tree"], tensors)


def _structure(value: Any, tensors: dict[str, Tensor]) -> Any:
    """JSON in which a tensor is its name; dictionaries are lists of pairs, for JSON's keys are words only."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"pairs": [[key, _structure(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_structure(item, tensors) for item in value]
    return value


def _tree(structure: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(structure, list):
        return [_tree(item, tensors) for item in structure]
    if isinstance(structure, dict):
        if "tensor" in structure:
            return tensors[structure["tensor"]]
        return {key: _tree(item, tensors) for key, item in structure["pairs"]}
    return structure


def _intact(file: Path) -> bytes:
    content = file.read_bytes()
    if hashlib.sha256(content).hexdigest()[:DIGITS] != file.stem.partition("-")[2]:
        raise ValueError("its bytes are not those that were written")
    return content


def _make_room(ours: Path) -> None:
    """Keep all checkpoints together within MOST_BYTES, where those of other trainings can make room."""
    sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in root().glob("*/")}
    for folder in sorted(sizes.keys() - {ours}, key=_written_at):
        if sum(sizes.values()) > MOST_BYTES:
            print(
                f"{folder}: removed, for all checkpoints together take more than {MOST_BYTES >> 30} GiB",
                file=sys.stderr,
            )
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]


def _written_at(path: Path) -> float:
    return path.stat().st_mtime
