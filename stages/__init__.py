"""The stages; each is run as a module, python -m stages.NAME, so that this comes before anything it imports.

An experiment of the queue runs in a snapshot and shares the cores with others. OpenMP's idle threads spin by default,
on cores that another experiment could use: two trainings at once then took six times as long as with threads that
sleep (docs/log.md). OpenMP reads the variable once, when torch is loaded.
"""

import os
from pathlib import Path

if Path(os.environ.get("DVC_ROOT", ".")).resolve() != Path.cwd():
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
