"""Checkpoints: where a training stands, on the disk, so that whatever ends it costs the updates since the last one.

They lie outside of what DVC knows, which deletes the outputs of a stage before it runs it: one folder for each thing
that can be trained, named by the digest of all that its result depends on (bukva.pipeline). So a training that was
interrupted finds its own, one whose parameters, text or code have changed finds none, and a snapshot of a queued
experiment finds that of the checkout.

    <project root>/.bukva/checkpoints/<stage>-<digest>/
        <step>-<digest of the file>.safetensors     the last two
        journal                                     the name of the journal that tells of this training

A file is a safetensors file and never unpickled; its name holds its digest, so that a torn one is known.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from bukva.errors import BukvaError
from bukva.files import atomic_file, project_root, write_text
from bukva.training.loop import Progress, TrainState
from bukva.training.processes import ALONE, Group

VERSION = 1
KEPT = 2
SECONDS = 30.0  # between checkpoints, where BUKVA_CHECKPOINT_SECONDS does not say otherwise
DIGITS = 16  # of a digest, in a name


class Checkpoints:
    """The checkpoints of one training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def journal(self) -> str:
        """The name of the journal that told of this training, for it to go on; empty at first."""
        with contextlib.suppress(OSError):
            return (self.folder / "journal").read_text(encoding="utf-8")
        return ""

    @journal.setter
    def journal(self, name: str) -> None:
        if name:
            write_text(self.folder / "journal", name)

    @classmethod
    def of(cls, stage: str, digest: str) -> "Checkpoints":
        """Those of what a stage makes of all that `digest` stands for (bukva.pipeline)."""
        return cls(root() / f"{stage}-{digest[:DIGITS]}")

    def save(self, state: TrainState) -> None:
        """Write where the training stands; the oldest goes."""
        content = pack(state.state_dict())
        name = f"{state.step:09d}-{hashlib.sha256(content).hexdigest()[:DIGITS]}.safetensors"
        with atomic_file(self.folder / name) as part:
            part.write_bytes(content)
        for old in self._files()[:-KEPT]:
            old.unlink(missing_ok=True)

    def last(self) -> bytes:
        """The last good one, or nothing.

        One that is torn or of another version is renamed, and told in a sentence; then the one before it counts.
        """
        for file in reversed(self._files()):
            try:
                content = _intact(file)
                unpack(content)
            except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
                aside = file.with_suffix(".broken")
                file.replace(aside)
                print(f"{aside}: set aside, for it is no checkpoint of this version ({error})", file=sys.stderr)
                continue
            return content
        return b""

    def clear(self) -> None:
        """Forget all of them: the training is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors"))  # in the order of their steps


def root() -> Path:
    """Where all checkpoints lie: in the original repository, also for an experiment that runs in a snapshot."""
    return project_root() / ".bukva" / "checkpoints"


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


def resume(state: TrainState, checkpoints: Checkpoints, group: Group = ALONE) -> None:
    """Put a state, as it starts, to where the last checkpoint left off; who leads a group tells the others, and us."""
    content = group.told(checkpoints.last() if group.leads else b"")
    if content:
        state.load_state_dict(unpack(content))
    if group.leads:
        begun = "nothing was begun with these parameters, this text and this code"
        said = f"resumed at step {state.step}" if content else f"from the start: {begun}"
        print(said, file=sys.stderr, flush=True)


def saving(
    updates: Iterator[Progress], state: TrainState, checkpoints: Checkpoints, asked: "Interruption"
) -> Iterator[Progress]:
    """The updates of a training, with a checkpoint every `seconds()`.

    Args:
        updates: of the training loop.
        state: what it changes.
        checkpoints: where that goes.
        asked: whether to end; then the update at hand is finished and saved first.

    Raises:
        SystemExit: 130 or 143, when SIGINT or SIGTERM asked for it.
    """
    every, saved_at = seconds(), time.monotonic()
    for progress in updates:
        if progress.step and (asked.signal or time.monotonic() - saved_at >= every):
            checkpoints.save(state)
            saved_at = time.monotonic()
        yield progress
        if asked.signal:
            print(f"interrupted after step {progress.step}, which is saved: the same command goes on", file=sys.stderr)
            sys.exit(128 + asked.signal)


class Interruption:
    """Whether this process was asked to end: the signal, or 0. Asked twice, it ends at once."""

    def __init__(self) -> None:
        self.signal = 0

    @contextlib.contextmanager
    def heard(self) -> Iterator["Interruption"]:
        """Within this block SIGINT and SIGTERM are noted instead of raised."""
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal:
            sys.exit(128 + number)
        self.signal = number
