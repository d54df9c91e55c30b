"""dvc.lock of any revision: what each stage was a function of, and whether that has changed since.

It is read as text, because DVC's API takes 7.8 s for the results of 12 revisions.
"""

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten

LOCK = "dvc.lock"
PARAMS = "params.yaml"


@dataclass(frozen=True)
class StageRecord:
    """One stage of a dvc.lock.

    params: dotted name -> value, of params.yaml.
    deps, outs: path -> digest as DVC writes it (MD5; of a folder that of the list of its files, and `.dir`).
    """

    params: Mapping[str, Any]
    deps: Mapping[str, str]
    outs: Mapping[str, str]


StageRecords = Mapping[str, StageRecord]  # by the name of the stage


@functools.cache
def parse_yaml(text: str) -> dict[str, Any]:
    """The sections of a text in YAML 1.2, read by the parser of DVC; none if it is something else."""
    from ruamel.yaml import YAML

    try:
        value = YAML(typ="safe").load(text)
    except Exception:  # the parser also raises the errors of int(), float() and datetime()
        return {}
    return value if isinstance(value, dict) else {}


def parse_lock(text: str) -> StageRecords:
    """The stages in the text of a dvc.lock; none if it is something else."""
    return {name: _record(raw) for name, raw in parse_yaml(text).get("stages", {}).items()}


def _record(raw: Mapping[str, Any]) -> StageRecord:
    deps, outs = ({item["path"]: item.get("md5", "") for item in raw.get(kind, ())} for kind in ("deps", "outs"))
    return StageRecord(flatten(raw.get("params", {}).get(PARAMS, {})), deps, outs)


def read_lock(folder: Path = Path()) -> StageRecords:
    """The stages in the dvc.lock of a folder; none if there is no such file yet."""
    file = folder / LOCK
    return parse_lock(file.read_text(encoding="utf-8")) if file.is_file() else {}


def upstream(stage: str, lock: StageRecords) -> list[str]:
    """The stage and all stages whose outputs it needs, in the order of `lock`."""
    makers = {maker for path in lock[stage].deps if (maker := maker_of(path, lock))}
    needed = {stage}.union(*(upstream(maker, lock) for maker in makers))
    return [name for name in lock if name in needed]


def maker_of(path: str, lock: StageRecords) -> str | None:
    """The stage that makes this file, or the folder that it is in; None for a source: code, or a text of the user."""
    places = {path, *map(str, Path(path).parents)}
    return next((name for name, entry in lock.items() if not places.isdisjoint(entry.outs)), None)


def sources(stage: str, lock: StageRecords) -> dict[str, str]:
    """The digests of those files that the stage reads and no stage makes."""
    return {path: md5 for path, md5 in lock[stage].deps.items() if maker_of(path, lock) is None}


def all_sources(stage: str, lock: StageRecords) -> dict[str, str]:
    """Those of a stage and of all stages that it needs."""
    return {path: md5 for name in upstream(stage, lock) for path, md5 in sources(name, lock).items()}


def outputs(lock: StageRecords) -> dict[str, str]:
    """The digests of all that the stages make, by path."""
    return {path: md5 for entry in lock.values() for path, md5 in entry.outs.items()}


def changes(stage: str, lock: StageRecords, params: Mapping[str, Any], now: Mapping[str, str]) -> Iterator[str]:
    """Why dvc.lock does not record one run of all that a stage needs as it is now, in a phrase for each reason.

    params: by dotted name.
    now: path -> digest of sources; those that are not among them are not compared.
    """
    for name in upstream(stage, lock):
        for key, value in lock[name].params.items():
            if params.get(key) != value:
                yield f"stage {name} ran with {key} {value}, and {PARAMS} has {params.get(key)}"
        for path, md5 in lock[name].deps.items():
            maker = maker_of(path, lock)
            if maker and lock[maker].outs.get(path, md5) != md5:
                yield f"stage {name} has not run since stage {maker} made another {path}"
            elif maker is None and now.get(path, md5) != md5:
                yield f"{path} has changed since stage {name} ran"


def digest(value: object) -> str:
    """16 hexadecimal digits of a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
