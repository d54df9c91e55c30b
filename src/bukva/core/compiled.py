"""Compile functions with numba, so that explicit loops run at the speed of C.

Compiling takes seconds, so the machine code is cached in ~/.cache/bukva, or in NUMBA_CACHE_DIR. The cache key is the
content of the module. numba's own key, path and timestamp of the file, would change with each snapshot in which DVC
runs an experiment.

The content of other modules is not part of the key. So a compiled function may only call compiled functions of its own
module.
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
    """Locate the cached machine code of a module: a folder named after the digest of the module's source."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._cache_path = str(Path(SETTINGS.CACHE_DIR) / f"{Path(file).stem}-{self._digest[:16]}")

    def get_source_stamp(self) -> str:
        """Return the digest of the source. numba uses cached code only if its stamp is equal."""
        return self._digest


def compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Return a function that compiles `function` at the first call; `options` go to numba.njit."""
    SETTINGS.CACHE_LOCATOR_CLASSES = f"{__name__}.{ContentCacheLocator.__name__}"
    try:
        if "NUMBA_CACHE_DIR" not in os.environ:
            SETTINGS.CACHE_DIR = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bukva")
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # the cache folder is read-only, or the user has no home folder
        return cast("Callable[P, R]", numba.njit(nogil=True, **options)(function))


def compiled_sums(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `compiled`, and allow sums of floats in any order, so that vector instructions can compute them.

    A loop that adds to a sum must not also write to an array. Otherwise the compiled code compares the addresses of the
    arrays and uses vector instructions only if they do not overlap. The order of the additions, and so the bytes of a
    trained model, would depend on memory addresses.
    """
    return compiled(function, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
