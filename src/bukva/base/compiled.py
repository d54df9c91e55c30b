"""Functions compiled by numba: explicit loops at the speed of C."""

import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

from bukva.base.files import project_root

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function when it is first called; its machine code is kept in .bukva/numba (NUMBA_CACHE_DIR)."""
    return _compiled(function)


def compiled_sums(function: Callable[P, R]) -> Callable[P, R]:
    """The same for sums of floats: they are added in any order, several at a time."""
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    if "NUMBA_CACHE_DIR" not in os.environ:
        numba.config.CACHE_DIR = str(project_root() / ".bukva" / "numba")  # type: ignore[attr-defined]
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:  # the folder is read-only
        return cast("Callable[P, R]", numba.njit(nogil=True, **options)(function))
