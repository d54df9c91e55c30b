"""Read params.yaml once, strictly, into frozen objects.

Every stage reads the whole file before it does anything, so that a mistake stops whichever stage runs first. The file
is read with DVC's own parser (ruamel.yaml, YAML 1.2): PyYAML reads 1e-3 as text.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bukva.config.messages import sentence, yaml_fault
from bukva.config.schema import Params
from bukva.core.errors import ParamsError

PARAMS = Path("params.yaml")


def read_params(path: Path = PARAMS) -> Params:
    """Read and validate the whole file.

    Raises:
        ParamsError: one sentence for each mistake, naming section, key, value and what is valid.
    """
    return parse_params(read_yaml(path), str(path))


def read_yaml(path: Path = PARAMS) -> dict[str, Any]:
    """Return the sections of a YAML file as DVC reads it, not validated.

    Raises:
        ParamsError: it is missing, unreadable, not YAML, or has no sections.
    """
    raw = read_any_yaml(path)
    if isinstance(raw, dict):
        return raw
    fault = "is empty" if raw is None else f"contains {type(raw).__name__}, not sections with keys"
    raise ParamsError(f"{path}: {fault}.")


def read_any_yaml(path: Path) -> Any:
    """Return the content of a YAML file as DVC reads it, None if it is empty.

    Raises:
        ParamsError: it is missing, unreadable, or not YAML.
    """
    from ruamel.yaml import YAML

    try:
        return YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        fault = f"cannot be read ({error.strerror}); run the command in the project's folder"
    except UnicodeDecodeError as error:
        fault = f"byte {error.start} is not UTF-8"
    except Exception as error:  # the parser also raises the errors of int(), float(), datetime() and the stack
        fault = f"not YAML: {yaml_fault(error)}"
    raise ParamsError(f"{path}: {fault}.")


def parse_params(raw: dict[str, Any], where: str) -> Params:
    """Validate sections that were read already; `where` names their source in errors.

    Raises:
        ParamsError: one sentence for each mistake.
    """
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        mistakes = [f"{where}, {sentence(details, Params)}" for details in error.errors(include_url=False)]
        raise ParamsError("\n".join(mistakes)) from None


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts with dotted keys, as DVC shows them: {"model": {"n_head": 4}} becomes {"model.n_head": 4}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
