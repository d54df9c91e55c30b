"""Read the records of finished stages in dvc.lock, and the pins of the numeric packages in numerics.lock.

dvc.lock is parsed here, because DVC's API takes 7.8 s to read the results of 12 commits.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError, redact_params
from bukva.core.files import project_root
from bukva.core.params import PARAMS, flatten, load_yaml

LOCK = "dvc.lock"
NUMERICS = Path("numerics.lock")
# files that git tracks and this program reads; a text in reports/*.md may have such a line itself
MERGED = PARAMS, "dvc.yaml", LOCK, str(NUMERICS), "reports/**/*.json*", "reports/**/*.csv"
CONFLICT = re.compile(r"^<<<<<<< ", re.MULTILINE)
FIRST_LINES = "schema: '2.0'\nstages:\n"  # of a dvc.lock that DVC has written; two spaces and a name begin each stage
PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


@dataclass(frozen=True)
class StageRecord:
    """The record of the last run of one stage in dvc.lock."""

    params: Mapping[str, Any]  # by dotted name, such as model.n_head
    deps: Mapping[str, str]  # path -> MD5; of a folder, the MD5 of the list of its files and `.dir`
    outs: Mapping[str, str]

    @functools.cached_property
    def folders(self) -> tuple[str, ...]:
        """The outputs as beginnings of the paths below them."""
        return tuple(f"{out}/" for out in self.outs)


StageRecords = Mapping[str, StageRecord]  # name of a stage -> record


@functools.cache
def parse_yaml(text: str) -> dict[str, Any]:
    """Parse YAML like DVC, and remove secrets from URLs. Return {} if the text is not a mapping."""
    try:
        value = load_yaml(text)
    except Exception:  # the parser also raises the errors of int(), float() and datetime()
        return {}
    return redact_params(value) if isinstance(value, dict) else {}


def parse_lock(text: str) -> StageRecords:
    """Return the records in the text of a dvc.lock, by stage name. The dict is empty if the text is not a dvc.lock."""
    stages = text.removeprefix(FIRST_LINES)
    if stages == text or re.search(r"^\S", stages, re.MULTILINE):  # DVC has not written it, or it also lists datasets
        return _records(text)
    records: dict[str, StageRecord] = {}
    for stage in re.split(r"^(?=  \S)", stages, flags=re.MULTILINE):
        records |= _records(f"stages:\n{stage}")
    return records


@functools.cache  # many experiments have the same record of a stage
def _records(text: str) -> dict[str, StageRecord]:
    """Return the records in a dvc.lock, or in a part of it."""
    records = {}
    for name, raw in (parse_yaml(text).get("stages") or {}).items():
        deps, outs = ({item["path"]: item.get("md5", "") for item in raw.get(kind, ())} for kind in ("deps", "outs"))
        records[name] = StageRecord(flatten(raw.get("params", {}).get(PARAMS, {})), deps, outs)
    return records


def read_lock(folder: Path = Path()) -> StageRecords:
    """Return the records in the dvc.lock of a folder, or an empty dict if there is none."""
    file = folder / LOCK
    return parse_lock(file.read_text(encoding="utf-8")) if file.is_file() else {}


def check_conflicts() -> None:
    """Raise a BukvaError if params.yaml, dvc.yaml, dvc.lock or a result has the lines of a merge conflict."""
    root, lines = project_root(), {}
    for file in (file for pattern in MERGED for file in sorted(root.glob(pattern))):
        before, *after = CONFLICT.split(file.read_text(encoding="utf-8", errors="replace"), maxsplit=1)
        if after:
            lines[file.relative_to(root).as_posix()] = before.count("\n") + 1
    if lines:
        name, line = next(iter(lines.items()))
        raise BukvaError(
            f"{name} has a merge conflict (line {line}). Edit it, or keep the version of one side: `git checkout "
            f"--ours {' '.join(lines)}` (or --theirs). Then run `make repro`. To undo the merge: `git merge --abort`."
        )


def upstream(stage: str, lock: StageRecords) -> list[str]:
    """Return `stage` and all stages on which it directly or indirectly depends, in the order of `lock`."""
    needed = [stage]
    for name in needed:  # the loop also visits the stages that it adds
        needed += {maker for path in lock[name].deps if (maker := maker_of(path, lock))} - {*needed}
    return [name for name in lock if name in needed]


def maker_of(path: str, lock: StageRecords) -> str | None:
    """Return the stage of which `path`, or a folder above it, is an output. Code and the user's texts have none."""
    makers = (name for name, made in lock.items() if path in made.outs or path.startswith(made.folders))
    return next(makers, None)


def sources(stage: str, lock: StageRecords) -> dict[str, str]:
    """Return the digests of the dependencies of `stage` that no stage writes, by path."""
    return {path: md5 for path, md5 in lock[stage].deps.items() if maker_of(path, lock) is None}


def all_sources(stage: str, lock: StageRecords) -> dict[str, str]:
    """Return the `sources` of `stage` and of all stages on which it depends."""
    return {path: md5 for name in upstream(stage, lock) for path, md5 in sources(name, lock).items()}


def dependencies(lock: StageRecords) -> dict[str, str]:
    """Return the digests of the dependencies of all stages, by path."""
    return {path: md5 for record in lock.values() for path, md5 in record.deps.items()}


def outputs(lock: StageRecords) -> dict[str, str]:
    """Return the digests of the outputs of all stages, by path."""
    return {path: md5 for record in lock.values() for path, md5 in record.outs.items()}


def changes(stage: str, lock: StageRecords, params: Mapping[str, Any], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a phrase for each difference between the project and the records of `stage` and the stages before it.

    `params` has the current parameters by dotted name, and `now` digests of sources by path, of which some may be left
    out.
    """
    params = redact_params(params)  # as in `lock`
    for name in upstream(stage, lock):
        for key, value in lock[name].params.items():
            if params.get(key) != value:
                yield f"stage {name} ran with {key}={value}, but {PARAMS} has {params.get(key)}"
        for path, md5 in lock[name].deps.items():
            maker = maker_of(path, lock)
            if maker and lock[maker].outs.get(path, md5) != md5:
                yield f"stage {maker} has changed {path} since stage {name} ran"
            elif maker is None and now.get(path, md5) != md5:
                yield f"{path} has changed since stage {name} ran"


def digest(value: object) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of `value`, written as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def wrong_packages(pins: Path = NUMERICS) -> list[str]:
    """Return a clause for each installed package that differs from its pin. Local tags, such as +cpu, are ignored."""
    wrong = []
    for name, wanted in PIN.findall(pins.read_text(encoding="utf-8")) if pins.exists() else ():
        try:
            here = version(name).partition("+")[0]
        except PackageNotFoundError:
            here = "missing"
        if here != wanted:
            wrong.append(f"{name} is {here}, but this commit needs {wanted}")
    return wrong
