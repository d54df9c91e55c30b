"""The machine, and how a process uses it: its cores, how the idle threads of OpenMP wait, how large its pages are.

GNU's OpenMP lets a thread that waits for others spin before it sleeps. Where each thread has a core, that doubles the
speed of a small model. Where other programs need the cores, it is ruinous: the waiting threads occupy what the awaited
ones need. So threads spin long, and briefly while the cores are crowded. No byte of an output depends on it, because
the number of threads that compute is the same. docs/dev/log.md (2026-11-24) has the measurements.
"""

import contextlib
import ctypes
import functools
import os
import platform
import sys
import threading
import time
from pathlib import Path

SPINS = "30000"
SPINS_IF_BLIND = "1000"  # a compromise where the system does not say that threads wait for a core
WAITING = Path("/proc/self/task")  # of Linux: has a file schedstat for each thread
LOOK_SECONDS = 0.5
CROWDED = 0.1  # seconds that the threads of this process wait for a core, together, in each second
CPUINFO = Path("/proc/cpuinfo")  # of Linux
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h of glibc


def prepare_torch() -> None:
    """Set what torch reads from the environment when it is imported, unless the user has; give_way() has to follow.

    The first is how long idle threads of OpenMP spin. The second lets torch ask the kernel for pages of 2 MB for large
    tensors, which are given back and asked for again at each update: with a vocabulary of thousands of characters,
    pages of 4 kB took more than half of a training.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS if any(WAITING.glob("*/schedstat")) else SPINS_IF_BLIND)
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


@functools.cache
def give_way() -> None:
    """From now on, let idle threads of this process spin only briefly while its threads wait for cores."""
    if any(WAITING.glob("*/schedstat")):
        threading.Thread(target=_look, name="crowding", daemon=True).start()


def keep_freed_memory() -> None:
    """Let this process keep what it frees, up to 32 MB at once, where the system's library is glibc.

    Otherwise tensors are given back and asked for again in each update, and the kernel fills each page with zeros.
    """
    with contextlib.suppress(AttributeError, OSError):  # another library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc accepts
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def open_idle_teams() -> threading.Event:
    """Open idle threads, until the event is set, so that OpenMP counts more threads than cores.

    It then spins 100 times instead of GOMP_SPINCOUNT (GCC manual, GOMP_SPINCOUNT), in all threads of the process. A
    team of threads belongs to the thread that opened it, and ends with it.
    """
    import torch

    over, team = threading.Event(), torch.get_num_threads()  # also of those that are opened here

    def open_team() -> None:
        torch.zeros(1 << 20).add_(1)  # large enough to be shared among threads
        over.wait()

    for _ in range(-(-(n_cores() + 1 - team) // (team - 1)) if team > 1 else 0):
        threading.Thread(target=open_team, daemon=True).start()
    return over


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


def _look() -> None:
    over, waited, at = None, _waited_seconds(), time.monotonic()
    while True:
        time.sleep(LOOK_SECONDS)
        before, waited, since, at = waited, _waited_seconds(), at, time.monotonic()
        if waited - before > CROWDED * (at - since):
            over = over or open_idle_teams()
        elif over:
            over.set()
            over = None


def _waited_seconds() -> float:
    """How long the threads of this process have been ready to run without a core, together."""
    nanoseconds = 0
    for file in WAITING.glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that has ended
            nanoseconds += int(file.read_text().split()[1])
    return nanoseconds / 1e9
