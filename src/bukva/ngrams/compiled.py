"""Functions compiled by numba: explicit loops at the speed of C."""

import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

from bukva.base.files import project_root

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function when it is first called; its machine code is kept in .bukva/numba (NUMBA_CACHE_DIR)."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        numba.config.CACHE_DIR = str(project_root() / ".bukva" / "numba")  # type: ignore[attr-defined]
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # the folder is read-only
        return cast("Callable[P, R]", numba.njit(nogil=True)(function))
