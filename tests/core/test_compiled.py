"""Cached machine code is found by the content of a module, whatever its path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(MODULE)
    assert run(tmp_path / "one", tmp_path / "cache") == (21, 0)
    assert run(tmp_path / "two", tmp_path / "cache") == (21, 1)
    (tmp_path / "three" / "module.py").write_text(MODULE.replace("7", "5"))
    assert run(tmp_path / "three", tmp_path / "cache") == (15, 0)
