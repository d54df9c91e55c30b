"""Read YAML as DVC does, and validate params.yaml."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bukva.core.errors import ParamsError
from bukva.core.messages import error_message, yaml_fault
from bukva.core.schema import Params

PARAMS = "params.yaml"
MAX_DEPTH = 10_000  # nesting at which the parser in C is safe; 100,000 open brackets crash it


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
    try:
        return load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        fault = f"cannot be read ({error.strerror}). Run the command in the folder of the project"
    except UnicodeDecodeError as error:
        fault = f"is not valid UTF-8 (at byte {error.start}). Save it as UTF-8"
    except Exception as error:  # the parser also raises errors of int(), float() and datetime(), and RecursionError
        fault = f"is not valid YAML: {yaml_fault(error)}"
    raise ParamsError(f"{path} {fault}.")


def load_yaml(text: str) -> Any:
    """Return what DVC's parser reads, in a tenth of the time. A text that DVC refuses raises any exception."""
    if any(text.count(char) > MAX_DEPTH for char in "[{-?:"):
        from ruamel.yaml import YAML

        return YAML(typ="safe").load(text)
    import yaml

    return yaml.load(text, _loader())


@functools.cache
def _loader() -> type[Any]:
    """Return PyYAML's parser, which is written in C, with the rules of DVC's parser (ruamel.yaml, YAML 1.2)."""
    import yaml
    from ruamel.yaml.resolver import implicit_resolvers
    from yaml.constructor import ConstructorError

    class Loader(yaml.CSafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = set[str]()
            for key, _ in node.value:
                if key.value in keys:  # PyYAML takes the last one
                    problem = f'found duplicate key "{key.value}"'
                    raise ConstructorError("while constructing a mapping", node.start_mark, problem, key.start_mark)
                keys.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_yaml_int(self, node: Any) -> int:
            digits = self.construct_scalar(node).replace("_", "")
            has_prefix = digits.lstrip("+-")[1:2].isalpha()  # 0x, 0o or 0b; PyYAML also reads 010 as octal
            return int(digits, 0 if has_prefix else 10)

    Loader.yaml_implicit_resolvers = {}  # patterns that give a plain word a type, such as null
    for versions, tag, pattern, first_chars in implicit_resolvers:
        if (1, 2) in versions:
            Loader.add_implicit_resolver(tag, pattern, first_chars)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    return Loader


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
