"""The machine, and how a process uses it: its cores, how the idle threads of OpenMP wait, how large its pages are."""

import contextlib
import ctypes
import itertools
import math
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath

SPINS = "1000"
CPUINFO = Path("/proc/cpuinfo")  # of Linux
MEMBERSHIP, CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")  # of Linux: the limits of containers
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
    """Return the number of cores that this process may use, within the quota of its container.

    OMP_NUM_THREADS may ask for fewer, as Ray does in a cluster.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    cores = max(1, round(min(cores, cpu_quota())))  # more threads than the quota spend it on waiting for each other
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(cores, int(given)) if given.isdecimal() and int(given) else cores


def cpu_quota() -> float:
    """Return how many cores the control groups of this process allow, such as 1.5; infinity without a limit."""
    limits = [*_limits("cpu.max"), *_limits("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    return min((quota / period for quota, period in limits), default=math.inf)


def memory_bytes() -> int:
    """Return the memory of this machine, or what the control groups of this process allow."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *(limit for (limit,) in (*_limits("memory.max"), *_limits("memory.limit_in_bytes")))])


def _limits(*names: str) -> Iterator[list[int]]:
    """Yield the numbers in these files of each control group with a limit: that of this process, and those above it.

    cgroup v2 has one file for a limit ("150000 100000", or "max 100000" for none), and v1 one for each number (-1 for
    no quota). In a container the path of the group may be that on the host. What the container sees of it is its root.
    """
    for line in MEMBERSHIP.read_text().splitlines() if MEMBERSHIP.exists() else ():
        _, controllers, place = line.split(":", 2)
        for controller, folder in itertools.product(
            controllers.split(","), (PurePath(place), *PurePath(place).parents)
        ):
            files = [CGROUPS / controller / str(folder).lstrip("/") / name for name in names]
            words = [word for file in files if file.is_file() for word in file.read_text().split()]
            if words and all(map(str.isdecimal, words)):
                yield list(map(int, words))
