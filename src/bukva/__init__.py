"""Experiments with character-level language models.

The packages follow the data: `text` and `corpus` turn text into ids, `models` and `training` learn from the ids,
`evaluation` scores the models, and `report` shows the scores. A package imports only packages of lower layers;
tests/test_layers.py lists the layers and checks the imports.

Other programs load a trained model with `bukva.load` (see bukva.serving.writer). `import bukva` itself is fast, because
`load` imports torch only when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bukva.serving.writer import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Import `load` on first access, because it needs torch."""
    if name in __all__:
        return getattr(importlib.import_module("bukva.serving.writer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
