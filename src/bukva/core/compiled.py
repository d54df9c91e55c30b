"""Compile loops with numba. The machine code is cached by the digest of the module's source.

numba's own key has the path and time of the source, which change with each temporary copy in which DVC runs an
experiment. A compiled function may only call compiled functions of its own module, whose source is in the key.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.caching import UserProvidedCacheLocator

P = ParamSpec("P")
R = TypeVar("R")
SETTINGS: Any = numba.config


class ContentCacheLocator(UserProvidedCacheLocator):
    """Tell numba to cache the machine code of a module under the digest of its source."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._cache_path = str(Path(SETTINGS.CACHE_DIR) / f"{Path(file).stem}-{self._digest[:16]}")

    def get_source_stamp(self) -> str:
        return self._digest


def compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Compile `function` with `numba.njit` and these options at its first call."""
    SETTINGS.CACHE_LOCATOR_CLASSES = f"{__name__}.{ContentCacheLocator.__name__}"
    try:
        if "NUMBA_CACHE_DIR" not in os.environ:
            SETTINGS.CACHE_DIR = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bukva")
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # the cache folder is read-only, or the user has no home folder, so nothing is cached
        return cast("Callable[P, R]", numba.njit(nogil=True, **options)(function))
