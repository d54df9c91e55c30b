"""What makes a config a shape: numbers that count something, words that are known."""

from dataclasses import fields
from typing import Any, get_args

MOST = 2**24  # what counts more is a mistake, and torch could not multiply it
MOST_LAYERS = 1000  # likewise, and building them would take for ever


def refuse_other(config: Any) -> None:
    """Check every field of a config against its type; a config can come from a file that somebody edited.

    Raises:
        ValueError: names the field and the value.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        if not _fits(value, field.type) or (field.name == "n_layer" and value > MOST_LAYERS):
            raise ValueError(f"{field.name} cannot be {value!r}")


def _fits(value: Any, wanted: Any) -> bool:
    if wanted is int:
        return type(value) is int and 1 <= value <= MOST
    if wanted is float:  # a share, of what is dropped
        return type(value) in (int, float) and 0 <= value < 1
    if wanted is bool:
        return type(value) is bool
    return value in get_args(wanted)
