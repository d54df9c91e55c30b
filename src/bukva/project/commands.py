"""Commands of DVC for a user to copy."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from bukva.config.load import flatten, read_yaml
from bukva.core.files import project_root
from bukva.project.recorded import PARAMS

PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)$)[A-Za-z_./][\w./-]*", re.IGNORECASE)  # text that needs no quotes


def rerun(name: str, params: Mapping[str, Any]) -> str:
    """The command that makes the result of these parameters under another name, without touching the checkout.

    It runs the code of the checkout. Where that is the code of the former result, DVC's run cache has the trainings,
    and the same files come back under their digests, so that the former name has its files again, too.
    """
    safe = re.sub(r"[^\w.-]+", "-", name).strip("-.")
    return " ".join([f"dvc exp run --temp -n {safe}-again", *settings(read_yaml(project_root() / PARAMS), params)])


def settings(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The options of `dvc exp run` that turn the known parameters into the wanted ones."""
    before, after = flatten(known), flatten(wanted)
    changed = [key for key in before if key in after and after[key] != before[key]]
    return [f"-S {shlex.quote(f'{key}={literal(after[key])}')}" for key in changed]


def literal(value: Any) -> str:
    """A value in Hydra's grammar."""
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return value if PLAIN.fullmatch(value) else f"'{escaped}'"
        case list():
            return f"[{','.join(map(literal, value))}]"
        case _:
            return str(value)
