"""The cores that this process may use, and options of the thread libraries and the memory allocator."""

import contextlib
import ctypes
import itertools
import math
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

CPUINFO = Path("/proc/cpuinfo")  # exists on Linux only
MEMBERSHIP, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # control groups limit containers on Linux
M_MXFAST, M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = 1, -1, -3  # constants of glibc's malloc.h


def prepare_torch() -> None:
    """Set two environment variables for torch, unless the user has set them. Call this before importing torch."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # how long an idle thread keeps its core; with the default, training is very slow while other programs run
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # pages of 2 MB for large tensors; with thousands of characters, pages of 4 kB took half of the training time
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def keep_freed_memory() -> None:
    """Make glibc keep freed blocks of up to 32 MB, so that no update waits for new pages."""
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the largest value that glibc accepts
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(M_MXFAST, 0)  # lists of small blocks, which a large request searches


def processor() -> str:
    """Return the model name of the CPU, or the architecture if the model is unknown."""
    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def n_cores() -> int:
    """Return how many cores this process may use: its affinity, its container's quota, OMP_NUM_THREADS (set by Ray)."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    cores = max(1, round(min(cores, cpu_quota())))  # more threads would spend the quota waiting for each other
    requested = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(cores, int(requested)) if requested.isdecimal() and int(requested) else cores


def cpu_quota() -> float:
    """Return the number of cores, such as 1.5, that the control groups of this process allow, or infinity."""
    limits = [*_limits("cpu.max"), *_limits("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    return min((quota / period for quota, period in limits), default=math.inf)


def _limits(*names: str) -> Iterator[list[int]]:
    """Yield the numbers in the files `names` for each control group (cgroup) that limits this process."""
    for line in MEMBERSHIP.read_text().splitlines() if MEMBERSHIP.exists() else ():
        _, controllers, group = line.split(":", 2)
        for controller, folder in itertools.product(
            controllers.split(","), (PurePath(group), *PurePath(group).parents)
        ):
            files = [CGROUPS / controller / str(folder).lstrip("/") / name for name in names]
            words = [word for file in files if file.is_file() for word in file.read_text().split()]
            if words and all(map(str.isdecimal, words)):
                yield list(map(int, words))
