"""The stages, each run as a module (python -m stages.NAME), so that this file runs before anything it imports.

OpenMP's idle threads spin, by default long enough to take a core from other processes: two trainings at once, or one
beside a busy process, then take five to twelve times as long instead of twice. A short spin costs little alone and
leaves other processes their cores (docs/log.md). GNU's OpenMP reads the number once, when torch is loaded; it changes
no byte of an output, and OMP_WAIT_POLICY in the environment takes precedence.

No byte code is written, by a stage or by what it starts: on a full disk Python 3.11 leaves a torn .pyc under its final
name (python/cpython#126606), and then no stage can be imported.
"""

import os
import sys

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
