"""The stage scripts, which DVC runs as modules: python -m stages.NAME.

This file runs before a stage imports anything else. It turns off the writing of bytecode, for the stage and for the
processes that it starts. On a full disk, Python 3.11 leaves a truncated .pyc file under its final name
(python/cpython#126606), and every later import of the module fails.
"""

import os
import sys

sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

from bukva.core.machine import prepare_torch  # noqa: E402 (imported after bytecode is turned off)

prepare_torch()
