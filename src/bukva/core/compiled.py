"""Compile functions with numba, so that explicit loops run at the speed of C.

Compiling takes seconds, so the machine code is cached in ~/.cache/bukva, or in NUMBA_CACHE_DIR. The cache key of a
module is the digest of its source. By default, numba would use the path and the timestamp of the source file instead.
Both change with each temporary copy of the project in which DVC runs an experiment.

A compiled function may only call compiled functions of its own module, because the cache key does not include the
source of other modules.
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
    """Tell numba in which folder to cache the machine code of a module.

    The name of the folder contains the digest of the module's source.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._cache_path = str(Path(SETTINGS.CACHE_DIR) / f"{Path(file).stem}-{self._digest[:16]}")

    def get_source_stamp(self) -> str:
        """Return the digest of the source. numba saves it with the machine code, and recompiles if it has changed."""
        return self._digest


def compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Return a version of `function` that numba compiles at its first call.

    `options` are passed to `numba.njit`. The machine code is cached if the cache folder can be written.
    """
    SETTINGS.CACHE_LOCATOR_CLASSES = f"{__name__}.{ContentCacheLocator.__name__}"
    try:
        if "NUMBA_CACHE_DIR" not in os.environ:
            SETTINGS.CACHE_DIR = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bukva")
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # the cache folder is read-only, or the user has no home folder, so nothing is cached
        return cast("Callable[P, R]", numba.njit(nogil=True, **options)(function))


def compiled_sums(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `compiled`, and allow sums of floats in any order, so that vector instructions can compute them.

    A loop that adds to a sum must not also write to an array. Otherwise the machine code checks whether arrays overlap
    in memory, and uses vector instructions only if they do not. The order of the additions would then depend on memory
    addresses, and so would the bytes of a trained model.
    """
    return compiled(function, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
