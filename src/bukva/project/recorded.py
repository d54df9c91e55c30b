"""dvc.lock of any revision: what each stage was a function of, and what it made."""

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bukva.config.load import flatten
from bukva.project.lock import recorded

LOCK = "dvc.lock"
PARAMS = "params.yaml"


@dataclass(frozen=True)
class Entry:
    """One stage.

    params: dotted name -> value, of params.yaml.
    deps, outs: path -> digest as DVC writes it (MD5; of a folder that of the list of its files, and `.dir`).
    """

    params: Mapping[str, Any]
    deps: Mapping[str, str]
    outs: Mapping[str, str]


Entries = Mapping[str, Entry]  # by the name of the stage


@functools.cache
def parse_lock(text: str) -> Entries:
    """The stages of a dvc.lock.

    Raises:
        ValueError: it is not a dvc.lock.
    """
    try:
        return {name: _entry(raw) for name, raw in recorded(text).items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a {LOCK}: {error!r}") from None


def upstream(stage: str, entries: Entries) -> list[str]:
    """The stage and all stages whose outputs it needs, in the order of `entries`."""
    needed, waiting = set(), [stage]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        makers = {maker for dep in entries[name].deps if (maker := maker_of(dep, entries))}
        waiting += makers - needed
    return [name for name in entries if name in needed]


def maker_of(path: str, entries: Entries) -> str | None:
    """The stage that makes this file, or the folder that it is in; None for a source: code, or a text of the user."""
    places = {path, *(path[:end] for end, character in enumerate(path) if character == "/")}
    return next((name for name, entry in entries.items() if not places.isdisjoint(entry.outs)), None)


def sources(stage: str, entries: Entries) -> dict[str, str]:
    """The digests of those files that the stage reads and no stage makes."""
    return {path: md5 for path, md5 in entries[stage].deps.items() if maker_of(path, entries) is None}


def digest(value: object) -> str:
    """16 hexadecimal digits of a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _entry(raw: Mapping[str, Any]) -> Entry:
    deps, outs = ({item["path"]: item.get("md5", "") for item in raw.get(kind, ())} for kind in ("deps", "outs"))
    return Entry(flatten(raw.get("params", {}).get(PARAMS, {})), deps, outs)
