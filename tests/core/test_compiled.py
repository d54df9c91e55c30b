"""Cached machine code is found by the content of a module, whatever its path."""

import os
import subprocess
import sys

import pytest

from tests.support.imports import ROOT

MODULE = """\
from bukva.core.compiled import compiled

@compiled
def times(n):
    return n * 7
"""


def run(folder, cache):
    program = "import module; print(module.times(3), sum(module.times.stats.cache_hits.values()))"
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{folder}", "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


@pytest.mark.slow
def test_a_copy_of_a_module_finds_its_machine_code_and_another_content_does_not(tmp_path):
    for name, module, answer in (
        ("one", MODULE, (21, 0)), ("two", MODULE, (21, 1)), ("three", MODULE.replace("7", "5"), (15, 0)),
    ):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(module)
        assert run(tmp_path / name, tmp_path / "cache") == answer
