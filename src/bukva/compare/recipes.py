"""Recipes: files of a few parameters, in the sections of params.yaml, that `dvc exp run` takes as options."""

import re
from pathlib import Path
from typing import Any

from bukva.config.load import PARAMS, flatten, parse_params, read_params, read_yaml
from bukva.config.messages import WAY_BACK, one_or_another
from bukva.core.errors import BukvaError
from bukva.project.commands import literal

FOLDER = Path("recipes")
CHANGED_BY_SHELLS = re.compile(r"[\s*?]")  # in `dvc exp run $(bukva recipe NAME)`, which is not quoted


def descriptions() -> dict[str, str]:
    """The recipes by name: the comment in the first line of each."""
    return {
        path.stem: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        for path in sorted(FOLDER.glob("*.yaml"))
    }


def options(name: str) -> list[str]:
    """The options of `dvc exp run` that a recipe stands for, all its keys: [-S, model.n_head=4, -S, ...].

    Quotes in them are Hydra's: a shell leaves the quotes in what a command printed.

    Raises:
        BukvaError: there is no such recipe, or a key or value of it is not valid.
    """
    path = FOLDER / f"{name}.yaml"
    if not path.exists():
        raise BukvaError(f"recipe {name}: does not exist; use {one_or_another(list(descriptions()))}.")
    read_params()  # a mistake there is none of the recipe
    try:
        recipe = read_yaml(path)
        parse_params(merged(read_yaml(PARAMS), recipe), str(path))
    except BukvaError as error:
        raise BukvaError(str(error).removesuffix(WAY_BACK).rstrip()) from None  # that is the way back of params.yaml
    found = [f"{key}={literal(value)}" for key, value in flatten(recipe).items()]
    for setting in filter(CHANGED_BY_SHELLS.search, found):
        raise BukvaError(f"{path}, {setting}: a shell changes a space, * or ?; write the value into {PARAMS} instead.")
    return [word for setting in found for word in ("-S", setting)]


def merged(params: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """The sections of params.yaml with the keys of a recipe, which may be wrong."""
    return params | {
        section: {**params[section], **keys} if isinstance(keys, dict) and section in params else keys
        for section, keys in recipe.items()
    }
