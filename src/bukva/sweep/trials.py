"""Define sweeps and their trials, and read and write sweeps in .bukva/sweeps."""

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json
from bukva.project.commands import overrides, params_with, values_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
DIGITS = 6  # length of the digests in the names of sweeps and trials


@dataclass(frozen=True)
class Trial:
    """One experiment of a sweep.

    settings: values of the option -S of `dvc exp run`, such as `model.n_head=8`.
    """

    name: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """A sweep, that is all trials of one command.

    name: unique name. The same commit and settings give the same name, so that repeating a command continues the sweep.
    commit: commit from which all trials start.
    address: HOST:PORT of a Ray cluster, or "" for this machine.
    storage: folder or URL where Tune keeps its state and the checkpoints.
    """

    name: str
    commit: str
    address: str
    storage: str

    def save(self) -> None:
        """Write the sweep to .bukva/sweeps/NAME.json, for `bukva sweep status` and `bukva sweep pull`."""
        write_json(sweeps_root() / f"{self.name}.json", asdict(self))


def sweeps_root() -> Path:
    """Return the folder of all sweeps of this project."""
    return project_root() / ".bukva" / "sweeps"


def read_sweep(name: str | None = None) -> Sweep:
    """Return the sweep with this name. With `None`, return the newest sweep of the project.

    Raises:
        BukvaError: the project has no such sweep.
    """
    files = sorted(sweeps_root().glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise BukvaError("This project has no sweep yet. To start one: bukva sweep run -S SECTION.KEY=VALUE,VALUE")
    path = sweeps_root() / f"{name}.json" if name else files[-1]
    if path not in files:
        raise BukvaError(f"No sweep is named {name}. Existing sweeps: {', '.join(file.stem for file in files)}.")
    return Sweep(**read_json(path))


def checked_name(name: str, *parts: str) -> str:
    """Return the full name of a sweep: the user's name and a digest of `parts`, such as commit and settings.

    Raises:
        BukvaError: the user's name cannot be part of a git reference.
    """
    if not NAME.fullmatch(name):
        raise BukvaError(
            f"--name: {name!r} cannot be part of a git reference. Use up to 31 letters, digits, hyphens and "
            "underscores."
        )
    return f"{name}-{digest(*parts)}"


def grid(sweep: str, settings: Sequence[str]) -> list[Trial]:
    """Return one trial for each combination of values, in the order of `dvc exp run --queue`.

    Args:
        sweep: name of the sweep.
        settings: values of option -S in Hydra's grammar. A setting with several values gives several trials.

    Raises:
        BukvaError: a setting is invalid.
    """
    combinations = list(itertools.product(*map(values_of, overrides(settings))))
    for each in combinations:
        params_with(each)  # raises the error that a stage would raise
    digits = len(str(len(combinations)))
    return [
        Trial(f"{sweep}-{number:0{digits}d}-{digest(*each)}", each) for number, each in enumerate(combinations, start=1)
    ]


def digest(*parts: str) -> str:
    """Return a digest of the texts `parts`: DIGITS hexadecimal digits."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
