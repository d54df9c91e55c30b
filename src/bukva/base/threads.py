"""How many cores there are to use, and how the idle threads of OpenMP wait."""

import os
import sys

SPINS = "1000"


def limit_spinning() -> None:
    """Let idle threads spin briefly instead of long enough to take a core from other processes.

    Call it before torch is imported, because GNU's OpenMP reads it once.

    With the default, two trainings at once, or one beside a busy process, take five to twelve times as long instead of
    twice. A short spin costs little alone (docs/log.md). It changes no byte of an output, and OMP_WAIT_POLICY in the
    environment takes precedence.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def n_cores(wanted: int = 0) -> int:
    """So many cores as are wanted; for 0 all that this process may use."""
    if wanted:
        return wanted
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
