"""Read params.yaml and validate it into frozen objects.

Every stage validates the whole file at its start, so a mistake stops the first stage that runs. The file is read with
DVC's parser (ruamel.yaml, YAML 1.2), because PyYAML reads 1e-3 as text.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bukva.config.messages import error_message, yaml_fault
from bukva.config.schema import Params
from bukva.core.errors import ParamsError

PARAMS = Path("params.yaml")


def read_params(path: Path = PARAMS) -> Params:
    """Read and validate params.yaml.

    Raises:
        ParamsError: the file cannot be read or has mistakes. The message has one line for each mistake, with the
            section, the key, the value and the valid values.
    """
    return parse_params(read_yaml(path), str(path))


def read_yaml(path: Path = PARAMS) -> dict[str, Any]:
    """Return the sections of a YAML file without validation.

    Raises:
        ParamsError: the file is missing, unreadable, not YAML, or has no sections.
    """
    raw = read_any_yaml(path)
    if isinstance(raw, dict):
        return raw
    fault = "is empty" if raw is None else f"has a value of type {type(raw).__name__} instead of sections with keys"
    raise ParamsError(f"{path}: {fault}.")


def read_any_yaml(path: Path) -> Any:
    """Return the content of a YAML file, or None if the file is empty.

    Raises:
        ParamsError: the file is missing, unreadable, or not YAML.
    """
    from ruamel.yaml import YAML

    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        fault = f"cannot be read ({error.strerror}); run the command in the folder of the project"
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} is not UTF-8"
    except Exception as error:  # the parser also raises errors of int(), float() and datetime(), and RecursionError
        fault = f"is not valid YAML: {yaml_fault(error)}"
    raise ParamsError(f"{path}: {fault}.")


def parse_params(raw: dict[str, Any], where: str) -> Params:
    """Validate sections that were already read.

    Args:
        raw: section -> its keys and values, as `read_yaml` returns them.
        where: name of the file in error messages.

    Raises:
        ParamsError: the sections have mistakes. The message has one line for each mistake.
    """
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        mistakes = [f"{where}, {error_message(details, Params)}" for details in error.errors(include_url=False)]
        raise ParamsError("\n".join(mistakes)) from None


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested dicts to dotted keys, as DVC shows them: {"model": {"n_head": 4}} -> {"model.n_head": 4}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
