"""How OpenMP's idle threads wait; to be called before torch is imported, because GNU's OpenMP reads it once."""

import os

SPINS = "1000"


def limit_spinning() -> None:
    """Let idle threads spin briefly instead of long enough to take a core from other processes.

    With the default, two trainings at once, or one beside a busy process, take five to twelve times as long instead of
    twice. A short spin costs little alone (docs/log.md). It changes no byte of an output, and OMP_WAIT_POLICY in the
    environment takes precedence.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
