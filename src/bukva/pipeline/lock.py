"""dvc.lock: what DVC has recorded of each stage."""

from pathlib import Path
from typing import Any

LOCK = Path("dvc.lock")


def recorded(text: str) -> dict[str, Any]:
    """The stages in the text of a dvc.lock."""
    from ruamel.yaml import YAML

    return dict((YAML(typ="safe").load(text) or {}).get("stages", {}))


def has_output(stage: str, path: str, md5: str, lock: Path = LOCK) -> bool:
    """Whether DVC has recorded this output of a stage with this digest, and so the run that made it."""
    from ruamel.yaml.error import YAMLError

    try:
        outs = recorded(lock.read_text(encoding="utf-8"))[stage]["outs"]
    except (OSError, ValueError, KeyError, YAMLError):  # there is none, or DVC is writing it
        return False
    return any((out["path"], out["md5"]) == (path, md5) for out in outs)
