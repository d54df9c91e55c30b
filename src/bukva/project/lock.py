"""dvc.yaml and dvc.lock of any revision: what each stage was a function of, and what it would be one of if it ran now.

They are read as text, from git, because DVC's API, which gives the same (a test compares them), takes 7.8 s for the
results of 12 revisions: a leaderboard of 20 would take longer than a user waits.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten, read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import md5_of

PIPELINE = "dvc.yaml"
LOCK = "dvc.lock"
PARAMS = "params.yaml"


@dataclass(frozen=True)
class StageRecord:
    """One stage.

    params: dotted name -> value, of params.yaml.
    deps, outs: path -> digest as DVC writes it (MD5; of a folder that of the list of its files, and `.dir`).
    """

    params: Mapping[str, Any]
    deps: Mapping[str, str]
    outs: Mapping[str, str]


StageRecords = Mapping[str, StageRecord]  # by the name of the stage


@functools.cache
def parse_lock(text: str) -> StageRecords:
    """The stages of a dvc.lock.

    Raises:
        ValueError: it is not a dvc.lock.
    """
    try:
        return {name: _entry(raw) for name, raw in recorded(text).items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a {LOCK}: {error!r}") from None


def upstream(stage: str, entries: StageRecords) -> list[str]:
    """The stage and all stages whose outputs it needs, in the order of `entries`."""
    needed, waiting = set(), [stage]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        makers = {maker for dep in entries[name].deps if (maker := maker_of(dep, entries))}
        waiting += makers - needed
    return [name for name in entries if name in needed]


def maker_of(path: str, entries: StageRecords) -> str | None:
    """The stage that makes this file, or the folder that it is in; None for a source: code, or a text of the user."""
    places = {path, *(path[:end] for end, character in enumerate(path) if character == "/")}
    return next((name for name, entry in entries.items() if not places.isdisjoint(entry.outs)), None)


def sources(stage: str, entries: StageRecords) -> dict[str, str]:
    """The digests of those files that the stage reads and no stage makes."""
    return {path: md5 for path, md5 in entries[stage].deps.items() if maker_of(path, entries) is None}


def digest(value: object) -> str:
    """16 hexadecimal digits of a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _entry(raw: Mapping[str, Any]) -> StageRecord:
    deps, outs = ({item["path"]: item.get("md5", "") for item in raw.get(kind, ())} for kind in ("deps", "outs"))
    return StageRecord(flatten(raw.get("params", {}).get(PARAMS, {})), deps, outs)


def declared(pipeline: str, params: Mapping[str, Any]) -> StageRecords:
    """The stages in the text of a dvc.yaml, with their values of these parameters; digests are "".

    Raises:
        ValueError: it is not a dvc.yaml, or one of its paths has a name that neither it nor the parameters have.
    """
    try:
        raw = parse_yaml(pipeline)
        named = flatten({key: value for group in raw.get("vars", ()) for key, value in group.items()}) | flatten(params)
        return {name: _declared(spec, params, named) for name, spec in raw["stages"].items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a {PIPELINE} for these parameters: {error!r}") from None


def present(params: Mapping[str, Any] | None = None) -> StageRecords:
    """The stages of the checkout, with the digests of their sources; those of what stages make are unknown, "".

    params: in place of those of params.yaml.

    Raises:
        BukvaError: dvc.yaml or params.yaml cannot be read.
    """
    root = project_root()
    params = read_yaml(root / PARAMS) if params is None else params
    try:
        entries = declared((root / PIPELINE).read_text(encoding="utf-8"), params)
    except (OSError, ValueError) as error:
        raise BukvaError(f"{PIPELINE}: cannot be read ({error}); restore it: `git checkout {PIPELINE}`.") from None
    paths = {path for name in entries for path in sources(name, entries)}
    digests = {path: md5_of(root / path) for path in paths}
    return {
        name: StageRecord(entry.params, {path: digests.get(path, "") for path in entry.deps}, entry.outs)
        for name, entry in entries.items()
    }


def differences(stage: str, lock: StageRecords, expected: StageRecords) -> Iterator[str]:
    """Why dvc.lock does not record one run of all that the stage needs, in a phrase for each reason.

    Digests that are unknown in `expected` are not compared. What dvc.lock has and dvc.yaml no longer lists does not
    count, as for DVC.
    """
    for name in upstream(stage, expected):
        if name not in lock:
            yield f"stage {name} has not run"
            continue
        yield from _changes(name, lock[name], expected[name])
        for path, md5 in lock[name].deps.items():
            maker = maker_of(path, lock)
            if maker and lock[maker].outs.get(path, md5) != md5:
                yield f"stage {name} has not run since stage {maker} made another {path}"


def _changes(name: str, before: StageRecord, expected: StageRecord) -> Iterator[str]:
    for key, value in expected.params.items():
        if key not in before.params:
            yield f"stage {name} has not run with {key}"
        elif before.params[key] != value:
            yield f"stage {name} ran with {key} {before.params[key]}, and {PARAMS} has {value}"
    for path, md5 in expected.deps.items():
        if md5 and before.deps.get(path) != md5:
            yield f"{path} has changed since stage {name} ran"


def _declared(spec: Mapping[str, Any], params: Mapping[str, Any], named: Mapping[str, Any]) -> StageRecord:
    """A stage of dvc.yaml; `named` has the values that its paths refer to as ${NAME}."""

    def paths(*kinds: str) -> dict[str, str]:
        items = [item if isinstance(item, str) else next(iter(item)) for kind in kinds for item in spec.get(kind, ())]
        return {re.sub(r"\$\{([\w.]+)\}", lambda match: str(named[match[1]]), item): "" for item in items}

    values = {key: _lookup(params, key) for key in spec.get("params", ())}
    return StageRecord(flatten(values), paths("deps"), paths("outs", "metrics", "plots"))


def _lookup(params: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted name, which may be a section; None if there is none."""
    value: Any = params
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def recorded(text: str) -> dict[str, Any]:
    """The stages in the text of a dvc.lock.

    Raises:
        ValueError: it is not YAML.
        AttributeError, TypeError: it is another value than a dictionary.
    """
    return dict((parse_yaml(text) or {}).get("stages", {}))


def has_output(stage: str, path: str, md5: str) -> bool:
    """Whether DVC has recorded this output of a stage with this digest, and so the run that made it."""
    try:
        outs = recorded(Path(LOCK).read_text(encoding="utf-8"))[stage]["outs"]
    except (OSError, ValueError, KeyError):  # there is none, or DVC is writing it
        return False
    return any((out["path"], out["md5"]) == (path, md5) for out in outs)


@functools.cache
def parse_yaml(text: str) -> Any:
    """The value of a text in YAML 1.2, read by the parser of DVC.

    Raises:
        ValueError: it is not YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe").load(text)
    except YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None
