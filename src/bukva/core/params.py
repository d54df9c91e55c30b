"""Read and validate params.yaml, with DVC's parser (ruamel.yaml, YAML 1.2), because PyYAML reads 1e-3 as a string."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bukva.core.errors import ParamsError
from bukva.core.messages import error_message, yaml_fault
from bukva.core.schema import Params

PARAMS = "params.yaml"


def read_params(path: Path = Path(PARAMS)) -> Params:
    """Return the parameters. ParamsError: the file cannot be read, or has mistakes (one line each)."""
    return parse_params(read_yaml(path), str(path))


def read_yaml(path: Path = Path(PARAMS)) -> dict[str, Any]:
    """Return the sections of a YAML file such as params.yaml, by name. ParamsError: the file has no sections."""
    raw = read_any_yaml(path)
    if isinstance(raw, dict):
        return raw
    fault = "is empty" if raw is None else f"must contain sections with keys, but is a {type(raw).__name__}"
    raise ParamsError(f"{path} {fault}.")


def read_any_yaml(path: Path) -> Any:
    """Return the content of a YAML file. ParamsError: the file is missing, unreadable, or not YAML."""
    from ruamel.yaml import YAML

    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        fault = f"cannot be read ({error.strerror}). Run the command in the folder of the project"
    except UnicodeDecodeError as error:
        fault = f"is not valid UTF-8 (at byte {error.start}). Save it as UTF-8"
    except Exception as error:  # the parser also raises errors of int(), float() and datetime(), and RecursionError
        fault = f"is not valid YAML: {yaml_fault(error)}"
    raise ParamsError(f"{path} {fault}.")


def parse_params(raw: dict[str, Any], where: str) -> Params:
    """Validate what `read_yaml` returned. `where`: name of the file, for the ParamsError."""
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        mistakes = [f"{where}, {error_message(details, Params)}" for details in error.errors(include_url=False)]
        raise ParamsError("\n".join(mistakes)) from None


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return for {"model": {"n_head": 4}} the dict {"model.n_head": 4}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
