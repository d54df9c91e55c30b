"""bukva: honest experiments with character-level language models.

Folders follow the data: text becomes ids, models learn from ids, evaluation scores models, the report shows it.
Importing bukva costs nothing. Imports point down; tests/test_layers.py has the layers and checks them. `bukva.load`
gives a trained model to other programs (bukva.serving.writer).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bukva.serving.writer import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """`load`, imported when somebody asks for it: it needs torch."""
    if name in __all__:
        return getattr(importlib.import_module("bukva.serving.writer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
