"""The machine, and how a process uses it: its cores, how the idle threads of OpenMP wait, how large its pages are."""

import contextlib
import ctypes
import os
import platform
import sys
from pathlib import Path

SPINS = "1000"
CPUINFO = Path("/proc/cpuinfo")  # of Linux
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h of glibc


def prepare_torch() -> None:
    """Set what torch reads from the environment when it is imported, unless the user has set it.

    GOMP_SPINCOUNT is how long idle threads of OpenMP spin. Its default is ruinous where other programs need the cores:
    waiting threads occupy the cores that the awaited threads need. No byte of an output depends on it.

    THP_MEM_ALLOC_ENABLE lets torch ask the kernel for pages of 2 MB for large tensors, which are given back and asked
    for again at each update. With a vocabulary of thousands of characters, pages of 4 kB took more than half of a
    training.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def keep_freed_memory() -> None:
    """Let this process keep what it frees, up to 32 MB at once, where the system's library is glibc.

    Otherwise tensors are given back and asked for again in each update, and the kernel fills each page with zeros.
    """
    with contextlib.suppress(AttributeError, OSError):  # another library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc accepts
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def processor() -> str:
    """The model of the processor, which timings and results depend on."""
    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def n_cores() -> int:
    """All cores that this process may use; fewer where OMP_NUM_THREADS says so, as Ray does in a cluster."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores
