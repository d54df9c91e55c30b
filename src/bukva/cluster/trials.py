"""The trials of a sweep."""

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.load import parse_params, read_yaml
from bukva.core.errors import BukvaError
from bukva.project.lock import PARAMS

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
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
    """Trials that start from the same commit."""

    name: str
    commit: str
    trials: tuple[Trial, ...]


def grid(commit: str, settings: Sequence[str], name: str = "", nodes: int = 1) -> Sweep:
    """A trial for each combination, as `dvc exp run --queue` makes them.

    The same commit and settings give the same names, so that a sweep can be given again.

    Args:
        commit: from which all start.
        settings: options -S in Hydra's grammar; one with several values gives several trials.
        name: of the sweep; "" for one made of commit and settings.
        nodes: machines of each trial.

    Raises:
        BukvaError: the name or a setting is invalid.
    """
    sweep = checked_name(name) or f"sweep-{digest(commit, *settings)}"
    combinations = [tuple(each) for each in _combinations(settings)]
    check(combinations, nodes)
    digits = len(str(len(combinations)))
    return Sweep(
        sweep,
        commit,
        tuple(
            Trial(f"{sweep}-{number:0{digits}d}-{digest(*each)}", each)
            for number, each in enumerate(combinations, start=1)
        ),
    )


def checked_name(name: str) -> str:
    """The name of a sweep.

    Raises:
        BukvaError: it cannot be part of the name of a reference.
    """
    if name and not NAME.fullmatch(name):
        raise BukvaError(f"--name: {name!r} cannot be part of a name in git; use letters, digits, - and _, up to 41.")
    return name


def _combinations(settings: Sequence[str]) -> list[list[str]]:
    from dvc.utils.hydra import get_hydra_sweeps
    from hydra.errors import HydraException

    if not settings:
        return [[]]
    try:
        return [combination[PARAMS] for combination in get_hydra_sweeps({PARAMS: list(settings)})]
    except HydraException as error:
        raise BukvaError(
            f"-S: {_first_line(error)}; write SECTION.KEY=VALUE, and several values with commas."
        ) from None


def check(combinations: Sequence[Sequence[str]], nodes: int = 1) -> None:
    """Check that each combination makes a valid params.yaml, as the stages would find out one by one.

    Args:
        combinations: options -S of each trial.
        nodes: machines of each trial, which need equal shares.

    Raises:
        BukvaError: one does not.
    """
    raw = read_yaml(Path(PARAMS))
    for settings in combinations:
        try:
            processes = parse_params(_changed(raw, settings), PARAMS).train_gpt.processes
        except BukvaError as error:
            raise BukvaError(f"-S {' -S '.join(settings)}: {_first_line(error)}.") from None
        if processes % nodes:
            raise BukvaError(
                f"--nodes {nodes}: train_gpt.processes is {processes}, of all machines together; "
                f"use -S train_gpt.processes={nodes}, or another multiple of {nodes}."
            )


def _changed(raw: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """The sections of params.yaml with these settings, as `dvc exp run` writes them, which takes 60 ms."""
    changed = {section: dict(keys) for section, keys in raw.items()}
    for setting in settings:
        override = _parsed(setting)
        section, _, key = override.key_or_group.partition(".")
        if not override.is_add() and key not in changed.get(section, {}):
            raise BukvaError(f"{PARAMS} has no key {override.key_or_group}")
        if override.is_delete():
            del changed[section][key]
        else:
            changed.setdefault(section, {})[key] = override.value()
    return changed


@functools.cache
def _parsed(setting: str) -> "Override":
    from dvc.utils.hydra import to_hydra_overrides

    return to_hydra_overrides([setting])[0]


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")


def digest(*parts: str) -> str:
    """A few hexadecimal digits that stand for these texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]
