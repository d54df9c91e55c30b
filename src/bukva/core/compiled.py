"""Functions compiled by numba: explicit loops at the speed of C.

Compiling takes seconds, so machine code is kept: in ~/.cache/bukva, or in NUMBA_CACHE_DIR. It is found by the content
of the module: numba's own key, the path of the file and its time stamp, is another one for each snapshot in which DVC
runs an experiment. So a compiled function calls compiled functions of its own module only.
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


class ByContent(UserProvidedCacheLocator):
    """Where numba keeps the machine code of a module: a folder with the digest of its source."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._cache_path = str(Path(SETTINGS.CACHE_DIR) / f"{Path(file).stem}-{self._digest[:16]}")

    def get_source_stamp(self) -> str:
        """What must be equal for machine code to be used again."""
        return self._digest


def compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Compile a function when it is first called."""
    SETTINGS.CACHE_LOCATOR_CLASSES = f"{__name__}.{ByContent.__name__}"
    try:
        if "NUMBA_CACHE_DIR" not in os.environ:
            SETTINGS.CACHE_DIR = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bukva")
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # the folder is read-only, or the user has none
        return cast("Callable[P, R]", numba.njit(nogil=True, **options)(function))


def compiled_sums(function: Callable[P, R]) -> Callable[P, R]:
    """The same for sums of floats: they are added in any order, several at a time.

    A loop that adds to a sum must not write an array too: compiled code then looks at addresses, and adds one at a time
    where it cannot tell that arrays do not overlap. The bytes of a training depended on where its memory lay.
    """
    return compiled(function, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
