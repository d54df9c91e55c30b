"""What is to run: a sweep and its trials."""

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json
from bukva.project.commands import applied, overrides, values_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
DIGITS = 6  # of a digest, in the names of sweeps and trials


@dataclass(frozen=True)
class Trial:
    """One experiment.

    settings: options -S of `dvc exp run`, each with one value.
    """

    name: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """What one command runs; kept in .bukva/sweeps/NAME.json for those who look later.

    name: of the same commit and settings it is the same, so that a command can be given again.
    commit: from which all its trials start.
    address: HOST:PORT of a Ray cluster; "" for this machine.
    storage: the folder, or the address, where Tune keeps its state and the checkpoints.
    """

    name: str
    commit: str
    address: str
    storage: str

    def keep(self) -> None:
        """Write it."""
        write_json(sweeps_root() / f"{self.name}.json", asdict(self))


def sweeps_root() -> Path:
    """The folder of all sweeps of this project."""
    return project_root() / ".bukva" / "sweeps"


def read_sweep(name: str | None = None) -> Sweep:
    """A sweep of this project, the last one without a name.

    Raises:
        BukvaError: there is none.
    """
    files = sorted(sweeps_root().glob("*.json"), key=lambda path: path.stat().st_mtime)
    if not files:
        raise BukvaError("There is no sweep yet; start one: bukva sweep run -S SECTION.KEY=VALUE,VALUE.")
    path = sweeps_root() / f"{name}.json" if name else files[-1]
    if path not in files:
        raise BukvaError(f"{name}: there is no such sweep; known: {', '.join(file.stem for file in files)}.")
    return Sweep(**read_json(path))


def checked_name(name: str, *parts: str) -> str:
    """The name of a sweep: what the user calls it, and a digest of what makes it another one.

    Raises:
        BukvaError: it cannot be part of the name of a reference.
    """
    if not NAME.fullmatch(name):
        raise BukvaError(f"--name: {name!r} cannot be part of a name in git; use letters, digits, - and _, up to 31.")
    return f"{name}-{digest(*parts)}"


def grid(sweep: str, settings: Sequence[str]) -> list[Trial]:
    """A trial for each combination, as `dvc exp run --queue` makes them.

    Args:
        sweep: its name.
        settings: options -S in Hydra's grammar; one with several values gives several trials.

    Raises:
        BukvaError: a setting is invalid.
    """
    found = list(itertools.product(*map(values_of, overrides(settings))))
    for each in found:
        applied(each)  # raises where a stage would
    digits = len(str(len(found)))
    return [Trial(f"{sweep}-{number:0{digits}d}-{digest(*each)}", each) for number, each in enumerate(found, start=1)]


def digest(*parts: str) -> str:
    """A few hexadecimal digits that stand for these texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
