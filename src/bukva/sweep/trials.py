"""Define sweeps and their trials. Store sweeps as files in .bukva/sweeps."""

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

    name: name of the trial and of its experiment.
    settings: values of option -S of `dvc exp run`, such as `model.n_head=8`.
    """

    name: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """All trials of one `bukva sweep` command.

    name: unique name. It depends on the commit and the settings, so repeating a command continues the same sweep.
    commit: commit from which all trials start.
    address: HOST:PORT of a Ray cluster, or "" for this machine.
    storage: folder or URL where Ray Tune keeps its state and the checkpoints of trials.
    """

    name: str
    commit: str
    address: str
    storage: str

    def save(self) -> None:
        """Write the sweep to .bukva/sweeps/NAME.json, for `bukva sweep status` and `bukva sweep pull`."""
        write_json(sweeps_root() / f"{self.name}.json", asdict(self))


def sweeps_root() -> Path:
    """Return the folder that contains the files of all sweeps of this project."""
    return project_root() / ".bukva" / "sweeps"


def read_sweep(name: str | None = None) -> Sweep:
    """Return the sweep named `name`. With `None`, return the newest sweep of the project.

    Raises:
        BukvaError: the project has no such sweep.
    """
    files = sorted(sweeps_root().glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise BukvaError(
            "This project has no sweep yet. To start one, run `bukva sweep run -S SECTION.KEY=VALUE,VALUE`."
        )
    path = sweeps_root() / f"{name}.json" if name else files[-1]
    if path not in files:
        raise BukvaError(f"No sweep is named {name}. Existing sweeps: {', '.join(file.stem for file in files)}.")
    return Sweep(**read_json(path))


def checked_name(name: str, *parts: str) -> str:
    """Return the full name of a sweep: `name` and a digest.

    name: name that the user chose.
    parts: texts from which the digest is computed, such as the commit and the settings.

    Raises:
        BukvaError: `name` cannot be part of a git reference.
    """
    if not NAME.fullmatch(name):
        raise BukvaError(
            f"`--name` is {name!r}, which cannot be part of a git reference. Use up to 31 letters, digits, hyphens and "
            "underscores, and begin with a letter or digit."
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
    """Return a digest of the texts `parts`, with DIGITS hexadecimal digits."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
