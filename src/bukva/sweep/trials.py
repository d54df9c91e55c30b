"""Sweeps and their trials."""

import hashlib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.commands import overrides, params_with, values_of
from bukva.project.revisions import experiment_ref

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
DIGITS = 6  # length of the digests in the names of sweeps and trials


@dataclass(frozen=True)
class Sweep:
    """All trials of one `bukva sweep` command.

    name: depends on the commit and the settings, so the same command continues the same sweep.
    commit: commit from which all trials start.
    project: folder that gets the results, at the same path on all machines.
    address: HOST:PORT of a Ray cluster, or "" for this machine.
    """

    name: str
    commit: str
    project: Path
    address: str = ""

    def ref(self, trial: str) -> str:
        """Return the git reference of a trial's result. The trial is finished if the project has this reference."""
        return experiment_ref(self.commit, trial)


@dataclass(frozen=True)
class Trial:
    """One experiment of a sweep. `settings` are values of option -S of `dvc exp run`, such as `model.n_head=8`."""

    name: str
    settings: tuple[str, ...]


def sweeps_root() -> Path:
    """Return the folder with logs, tables and Tune's state of all sweeps of this project."""
    return project_root() / ".bukva" / "sweeps"


def checked_name(name: str, *parts: str) -> str:
    """Return the name of a sweep: `name` and a digest of `parts`, such as the commit and the settings.

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
    """Return DIGITS hexadecimal digits that identify the texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
