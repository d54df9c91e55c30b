"""dvc.yaml with params.yaml: what each stage would be a function of if it ran now, and whether dvc.lock records that.

DVC answers the same in `dvc status`, which takes more than a second, and for the checkout only.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bukva.config.load import flatten, read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.digests import md5_of
from bukva.project.lock import parse_yaml
from bukva.project.recorded import PARAMS, Entries, Entry, maker_of, sources, upstream

PIPELINE = "dvc.yaml"


def declared(pipeline: str, params: Mapping[str, Any]) -> Entries:
    """The stages in the text of a dvc.yaml, with their values of these parameters; digests are "".

    Raises:
        ValueError: it is not a dvc.yaml, or one of its paths has a name that neither it nor the parameters have.
    """
    try:
        raw = parse_yaml(pipeline)
        named = flatten({key: value for group in raw.get("vars", ()) for key, value in group.items()}) | flatten(params)
        return {name: _entry(spec, params, named) for name, spec in raw["stages"].items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a {PIPELINE} for these parameters: {error!r}") from None


def present(params: Mapping[str, Any] | None = None) -> Entries:
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
    digests = {path: md5_of(root / path, root) for path in paths}
    return {
        name: Entry(entry.params, {path: digests.get(path, "") for path in entry.deps}, entry.outs)
        for name, entry in entries.items()
    }


def differences(stage: str, lock: Entries, expected: Entries) -> Iterator[str]:
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


def _changes(name: str, recorded: Entry, expected: Entry) -> Iterator[str]:
    for key, value in expected.params.items():
        if key not in recorded.params:
            yield f"stage {name} has not run with {key}"
        elif recorded.params[key] != value:
            yield f"stage {name} ran with {key} {recorded.params[key]}, and {PARAMS} has {value}"
    for path, md5 in expected.deps.items():
        if md5 and recorded.deps.get(path) != md5:
            yield f"{path} has changed since stage {name} ran"


def _entry(spec: Mapping[str, Any], params: Mapping[str, Any], named: Mapping[str, Any]) -> Entry:
    """A stage of dvc.yaml; `named` has the values that its paths refer to as ${NAME}."""

    def paths(*kinds: str) -> dict[str, str]:
        items = [item if isinstance(item, str) else next(iter(item)) for kind in kinds for item in spec.get(kind, ())]
        return {re.sub(r"\$\{([\w.]+)\}", lambda match: str(named[match[1]]), item): "" for item in items}

    values = {key: _lookup(params, key) for key in spec.get("params", ())}
    return Entry(flatten(values), paths("deps"), paths("outs", "metrics", "plots"))


def _lookup(params: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted name, which may be a section; None if there is none."""
    value: Any = params
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
