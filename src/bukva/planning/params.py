"""Proposed values, compared with params.yaml and written into it."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bukva.config.load import PARAMS, parse_params, read_yaml
from bukva.core.files import write_text

Values = dict[str, dict[str, Any]]  # section -> key -> value
Change = tuple[str, Any, Any]  # section.key, the old value, the new one


def merge(raw: Values, values: Values) -> Values:
    """The sections with these values in them."""
    return raw | {section: raw[section] | keys for section, keys in values.items()}


def differences(raw: Values, values: Values) -> Iterator[Change]:
    """The values that differ from those of the file."""
    for section, keys in values.items():
        for key, value in keys.items():
            if raw[section][key] != value:
                yield f"{section}.{key}", raw[section][key], value


def write(values: Values, path: Path = PARAMS) -> None:
    """Put the values into params.yaml; comments, order and all other values stay.

    Raises:
        BukvaError: the values are not valid; the file is unchanged.
    """
    raw = read_yaml(path)
    parse_params(merge(raw, values), str(path))
    if not list(differences(raw, values)):
        return
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096  # keeps long lines whole
    content, text = yaml.load(path.read_text(encoding="utf-8")), io.StringIO()
    for section, keys in values.items():
        content[section].update(keys)
    yaml.dump(content, text)
    write_text(path, text.getvalue())
