"""Commands of DVC for a user to copy; recipes, files of a few parameters; and options -S, which stand for either."""

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.config.load import PARAMS, flatten, parse_params, read_params, read_yaml
from bukva.config.messages import one_or_another
from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

RECIPES = Path("recipes")
CHANGED_BY_SHELLS = re.compile(r"[\s*?]")  # in `dvc exp run $(bukva recipe NAME)`, which is not quoted
PLAIN = re.compile(r"(?!(?:true|false|null|nan|inf)$)[A-Za-z_./][\w./-]*", re.IGNORECASE)  # text that needs no quotes


def rerun(name: str, params: Mapping[str, Any]) -> str:
    """The command that makes the result of these parameters again under another name, beside the checkout."""
    safe = re.sub(r"[^\w.-]+", "-", name).strip("-.")
    return " ".join([f"dvc exp run --temp -n {safe}-again", *settings(read_yaml(project_root() / PARAMS), params)])


def settings(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The options of `dvc exp run` that turn the known parameters into the wanted ones."""
    before = flatten(known)
    changed = {key: value for key, value in flatten(wanted).items() if key in before and before[key] != value}
    return [f"-S {shlex.quote(f'{key}={literal(value)}')}" for key, value in changed.items()]


def literal(value: Any) -> str:
    """A value in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(literal, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return value if PLAIN.fullmatch(value) else f"'{escaped}'"
    return json.dumps(value)


def descriptions() -> dict[str, str]:
    """The recipes by name: the comment in the first line of each."""
    return {
        path.stem: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        for path in sorted(RECIPES.glob("*.yaml"))
    }


def options(name: str) -> list[str]:
    """The options of `dvc exp run` that a recipe stands for, all its keys: [-S, model.n_head=4, -S, ...].

    Raises:
        BukvaError: there is no such recipe, or a key or value of it is not valid.
    """
    path = RECIPES / f"{name}.yaml"
    if not path.exists():
        raise BukvaError(f"recipe {name}: does not exist; use {one_or_another(list(descriptions()))}.")
    read_params()  # a mistake there is none of the recipe
    try:
        params, recipe = read_yaml(PARAMS), read_yaml(path)
        valid = {key: {**params.get(key, {}), **value} for key, value in recipe.items() if isinstance(value, dict)}
        parse_params(params | recipe | valid, str(path))
    except BukvaError as error:
        raise BukvaError(str(error)) from None  # params.yaml is valid, so there is nothing to undo
    found = [f"{key}={literal(value)}" for key, value in flatten(recipe).items()]
    for setting in filter(CHANGED_BY_SHELLS.search, found):
        raise BukvaError(f"{path}, {setting}: a shell changes a space, * or ?; write the value into {PARAMS} instead.")
    return [word for setting in found for word in ("-S", setting)]


def overrides(settings: Sequence[str]) -> "list[Override]":
    """Options -S in Hydra's grammar.

    Raises:
        BukvaError: one of them is not in it.
    """
    from dvc.utils.hydra import to_hydra_overrides
    from hydra.errors import HydraException

    try:
        return list(to_hydra_overrides(list(settings)))
    except HydraException as error:
        raise BukvaError(
            f"-S: {_first_line(error)}; write SECTION.KEY=VALUE, and several values with commas."
        ) from None


def values_of(override: "Override") -> list[str]:
    """Options -S with one value each.

    Raises:
        BukvaError: there are infinitely many.
    """
    key = override.key_or_group
    if override.is_interval_sweep():
        raise BukvaError(f"-S {key}: an interval is for bukva sweep search; give several values with commas.")
    if not override.is_sweep_override():
        return [str(override.input_line)]
    return [f"{key}={each}" for each in override.sweep_string_iterator()]


def applied(settings: Sequence[str]) -> Params:
    """Return the parameters that options -S, together, make of params.yaml, checked as a stage would.

    Raises:
        BukvaError: they are not valid.
    """
    from dvc.exceptions import DvcException
    from dvc.utils.hydra import apply_overrides

    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        changed = Path(folder) / PARAMS.name
        shutil.copyfile(PARAMS, changed)
        try:
            apply_overrides(changed, list(settings))
            return parse_params(read_yaml(changed), PARAMS.name)
        except DvcException as error:
            said = f"{_first_line(error.__cause__ or error)}; use a key of {PARAMS}"
        except BukvaError as error:
            said = _first_line(error)
    raise BukvaError(f"-S {' -S '.join(settings)}: {said}.")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
