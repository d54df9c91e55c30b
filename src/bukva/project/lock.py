"""dvc.lock: what DVC has recorded of each stage.

YAML is parsed by PyYAML's C parser with the rules of YAML 1.2, taken from ruamel.yaml: ruamel.yaml itself, with which
DVC writes the file, takes 0.1 s for the dvc.lock of this project, and a leaderboard reads dozens.
"""

import functools
from pathlib import Path
from typing import Any

LOCK = Path("dvc.lock")


def recorded(text: str) -> dict[str, Any]:
    """The stages in the text of a dvc.lock.

    Raises:
        ValueError: it is not YAML.
        AttributeError, TypeError: it is another value than a dictionary.
    """
    return dict((parse_yaml(text) or {}).get("stages", {}))


def has_output(stage: str, path: str, md5: str, lock: Path = LOCK) -> bool:
    """Whether DVC has recorded this output of a stage with this digest, and so the run that made it."""
    try:
        outs = recorded(lock.read_text(encoding="utf-8"))[stage]["outs"]
    except (OSError, ValueError, KeyError):  # there is none, or DVC is writing it
        return False
    return any((out["path"], out["md5"]) == (path, md5) for out in outs)


@functools.cache
def parse_yaml(text: str) -> Any:
    """The value of a text in YAML 1.2.

    Raises:
        ValueError: it is not YAML.
    """
    import yaml

    try:
        return yaml.load(text, _loader())
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None


@functools.cache
def _loader() -> type:
    import yaml
    from ruamel.yaml.resolver import implicit_resolvers

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML fills it)

    for versions, tag, pattern, first in implicit_resolvers:
        if (1, 2) in versions:
            Loader.add_implicit_resolver(tag, pattern, first)
    return Loader
