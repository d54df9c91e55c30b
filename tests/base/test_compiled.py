"""Machine code is found by the content of a module, wherever the module lies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """\
from bukva.base.compiled import compiled

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
@pytest.mark.parametrize(("project", "kept"), [("src/bukva", "here/.bukva/numba"), ("src", "cache/bukva/numba")])
def test_machine_code_is_kept_in_a_project_and_elsewhere_in_the_cache_of_the_user(tmp_path, project, kept):
    here = tmp_path / "here"
    (here / project).mkdir(parents=True)
    (here / "module.py").write_text(MODULE)
    env = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "DVC_ROOT")}
    env |= {"PYTHONPATH": str(ROOT / "src"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", "import module"], cwd=here, env=env, check=True)
    assert [folder.name[:7] for folder in (tmp_path / kept).iterdir()] == ["module-"]
    assert {path.name for path in here.rglob("numba")} == ({"numba"} if kept.startswith("here") else set())


@pytest.mark.slow
def test_a_copy_of_a_module_finds_its_machine_code_and_another_content_does_not(tmp_path):
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text(MODULE)
    assert run(tmp_path / "one", tmp_path / "cache") == (21, 0)
    assert run(tmp_path / "two", tmp_path / "cache") == (21, 1)
    (tmp_path / "three" / "module.py").write_text(MODULE.replace("7", "5"))
    assert run(tmp_path / "three", tmp_path / "cache") == (15, 0)
