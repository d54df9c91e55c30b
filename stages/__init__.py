"""Scripts of the pipeline stages. DVC runs each script as a module: `python -m stages.NAME`.

This file runs before a stage imports anything else. It turns off the writing of bytecode (.pyc files) in the stage and
in all processes that the stage starts. The reason is a bug of Python 3.11: on a full disk, it leaves a truncated .pyc
file, and every later import of the module fails (python/cpython#126606).
"""

import gc
import os
import sys

sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
if "DVC_STAGE" in os.environ:
    gc.disable()  # until `stage.run`: importing torch leaves no garbage, and looking for it takes a tenth of the time

from bukva.core.machine import prepare_torch  # noqa: E402 (imported after bytecode is turned off)

prepare_torch()
