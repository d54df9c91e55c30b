"""The stages; each is run as a module, python -m stages.NAME, so that this comes before anything it imports.

OpenMP's idle threads spin by default, on cores that somebody else may need: two trainings at once then took six times
as long as with threads that sleep, and one training beside a busy process five times (docs/log.md). Alone on the
machine, OMP_WAIT_POLICY=active in the environment is faster. OpenMP reads it once, when torch is loaded; it changes no
byte of an output.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
