"""The stages, each run as a module (python -m stages.NAME), so that this file runs before anything it imports.

No byte code is written, by a stage or by what it starts: on a full disk Python 3.11 leaves a torn .pyc under its final
name (python/cpython#126606), and then no stage can be imported.
"""

import os
import sys

sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

from bukva.core.machine import prepare_torch  # noqa: E402 (no byte code of it, either)

prepare_torch()
