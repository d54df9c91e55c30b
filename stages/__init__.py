"""The stages; each is run as a module, python -m stages.NAME, so that this comes before anything it imports.

OpenMP's idle threads spin, by default long enough to take a core from whoever needs it: two trainings at once, or one
beside a busy process, then took five to twelve times as long instead of twice. A short spin costs little alone and
leaves the others be (docs/log.md). GNU's OpenMP reads the number once, when torch is loaded; it changes no byte of an
output, and OMP_WAIT_POLICY in the environment comes first.

No byte code is written, by a stage or by what it starts: on a full disk Python 3.11 leaves half a .pyc under its
final name (python/cpython#126606), and from then on no stage could be imported.
"""

import os
import sys

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
