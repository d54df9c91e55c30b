"""Comparing must start fast, so the statistics need numpy and one module of scipy."""

import subprocess
import sys

from imports import ROOT, belongs, modules, reached

MODULES = [name for name in modules() if belongs(name, ["bukva.statistics"])]


def test_statistics_import_base_only():
    for name in MODULES:
        assert all(belongs(other, ["bukva", "bukva.base", "bukva.statistics"]) for other in reached(name)), name


def test_statistics_import_nothing_slow():
    slow = "scipy.stats", "pandas", "torch", "mlflow"
    program = f"import sys, {', '.join(MODULES)}; print(*(name for name in {slow} if name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={"PYTHONPATH": "src"}, capture_output=True, text=True
    )
    assert (run.stdout.strip(), run.stderr) == ("", "")
