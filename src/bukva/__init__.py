"""Experiments with character-level language models.

`corpus` and `text` turn text into ids, the integers that stand for characters or tokens. `models` and `training` train
models on the ids, `evaluation` scores the models, and `report` presents the scores. The packages form layers, and a
package imports only packages of lower layers. tests/test_layers.py lists the layers and checks the imports.

Other programs load a trained model with `bukva.load` (see bukva.serving.writer). `import bukva` is fast, because torch
is imported only when `bukva.load` is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bukva.serving.writer import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Import `load` when it is first used, because it imports torch, which takes seconds."""
    if name in __all__:
        return getattr(importlib.import_module("bukva.serving.writer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
