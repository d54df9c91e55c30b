"""Test that dvc.yaml, the stage scripts, params.yaml, .gitignore and the lock files are consistent."""

import ast
import itertools
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from bukva.compare.judge import EDITABLE
from bukva.core.schema import OPTIMIZERS, Params
from bukva.project.stages import paths, stages, trained_models
from tests.support.imports import ROOT, belongs, imported, modules, reached

STAGES = list(stages())

# Packages that stages import but that are not in `deps`, because they cannot change an output.
PLUMBING = {
    "bukva": "gives bukva.load to other programs",
    "bukva.core": "checks `params` and writes whole files in one layout (tests/core); progress, errors, machine code",
    "bukva.project": "reads dvc.yaml and dvc.lock",
    "bukva.tracking": "reads outputs and writes none",
    "bukva.durability": "a resumed training ends in the same bytes (tests/dvc/test_story.py)",
    "bukva.cli": "prints errors",
    "stages.stage": "reads the parameters, records the stage and prints errors",
}
MAX_DEPS = 12


@cache
def pipeline():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    text = re.sub(r"\$\{path\.(\w+)\}", lambda match: paths()[match[1]], text)
    text = text.replace("${download.path}", "data/sample").replace("${clean.file}", "rules/example.yaml")
    return yaml.safe_load(text)["stages"]


def outputs(stage):
    entries = [entry for key in ("outs", "metrics", "plots") for entry in pipeline()[stage].get(key, [])]
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


def script(stage):
    return f"stages.{stage.replace('-', '_')}"


def test_each_stage_has_a_script_and_rows_in_the_documentation():
    assert list(pipeline()) == STAGES
    assert STAGES[-1] == "publish"
    page = (ROOT / "docs" / "outputs.md").read_text(encoding="utf-8")
    assert [stage for stage in STAGES if f"`{stage}`" not in page] == []
    written = {path.replace(f"curves/{Path(path).name}", "curves") for stage in STAGES for path in outputs(stage)}
    assert [path for path in written if path not in page] == []
    scripts = {name for name in modules() if name.startswith("stages.")}
    assert scripts == {*map(script, STAGES), "stages.stage", "stages.training"}


def code_of(stage):
    """Return the modules of the project that can change the outputs of a stage."""
    return {script(stage), *reached(script(stage), except_for=PLUMBING)}


def code_deps(stage):
    return [dep for dep in pipeline()[stage]["deps"] if dep.startswith(("src/", "stages/"))]


def lies_in(module, deps):
    file = modules()[module].relative_to(ROOT)
    return any(file == Path(dep) or Path(dep) in file.parents for dep in deps)


def is_code(module):
    return len(ast.parse(modules()[module].read_text(encoding="utf-8")).body) > 1


@pytest.mark.parametrize("stage", STAGES[:-1])  # publish has no outputs, so no code can change them
def test_what_a_stage_imports_lies_in_its_deps_or_cannot_change_an_output(stage):
    deps, used = code_deps(stage), code_of(stage)
    assert not [module for module in used if is_code(module) and not lies_in(module, deps)]
    for dep in deps:
        assert any(lies_in(module, [dep]) for module in used), f"{dep} is not needed"
    computes = any({"torch", "tokenizers", "numba"} & imported(name) for name in used | {"bukva.text.prompts"})
    assert ("numerics.lock" in pipeline()[stage]["deps"]) or not computes
    assert len(pipeline()[stage]["deps"]) <= MAX_DEPS


def test_what_a_listed_folder_holds_can_change_an_output():
    from bukva.backends import BACKENDS

    by_name = [*BACKENDS.values(), *(f"bukva.training.optimizers.{name}" for name in OPTIMIZERS)]
    used = {module for stage in STAGES[:-1] for module in code_of(stage)}
    used |= {other for module in by_name for other in {module, *reached(module, except_for=PLUMBING)}}
    listed = {dep for stage in STAGES[:-1] for dep in code_deps(stage)}
    assert not [name for name in modules() if lies_in(name, listed) and is_code(name) and name not in used]


def test_a_try_of_bukva_judge_may_not_edit_what_scores_a_text():
    not_editable = [dep for dep in code_deps("evaluate") if not dep.startswith(EDITABLE)]
    scoring = {name for name in code_of("evaluate") if not belongs(name, ["bukva.models", "bukva.backends"])}
    assert "bukva.scoring.window_rule" in scoring
    assert not [name for name in scoring if is_code(name) and not lies_in(name, not_editable)]


def test_evaluate_and_sample_depend_on_every_trained_model():
    assert [(model.name, model.label) for model in trained_models().values()] == [("bigram", "bigram"), ("gpt", "GPT")]
    for name, model in trained_models().items():
        assert [str(model.folder), str(model.curve)] == outputs(f"train-{name}")
        for stage in ("evaluate", "sample"):
            assert str(model.folder) in pipeline()[stage]["deps"]


def test_a_stage_takes_the_paths_that_dvc_yaml_names_as_its_inputs_and_outputs_and_every_section_has_a_stage():
    """A script uses a path with run.path(...). Training stages use the paths of their model."""
    for stage, spec in pipeline().items():
        source = modules()[script(stage)].read_text(encoding="utf-8")
        used = {paths()[name] for name in re.findall(r'run\.path\("(\w+)"\)', source)}
        assert used <= {*spec["deps"], *outputs(stage)}, stage
        if stages()[stage].kind not in ("training", "publish"):
            assert set(outputs(stage)) <= used, stage
    assert {section for stage in stages().values() for section in stage.sections} == set(Params.model_fields)


def test_a_stage_depends_on_whole_outputs_of_others():
    """DVC cannot restore a stage that depends on one file of an output folder whose recorded version is not cached."""
    written = {out for stage in STAGES for out in outputs(stage)}
    for spec in pipeline().values():
        for dep in spec["deps"]:
            assert dep in written or not dep.startswith(("data/", "reports/")) or dep == "data/sample", dep


def test_git_ignores_what_dvc_caches_and_tracks_the_metrics_and_plots_which_dvc_can_draw():
    """An `outs` entry with cache: false disables the run cache; `metrics` and `plots` do not (treeverse/dvc#8738).

    With a Markdown file among the plots, `dvc plots diff` reports that it failed to load some of them.
    """
    for stage, spec in pipeline().items():
        cached, plots = spec.get("outs", []), spec.get("plots", [])
        assert all(isinstance(out, str) for out in cached), stage
        for output in outputs(stage):
            ignored = subprocess.run(["git", "check-ignore", "-q", output], cwd=ROOT).returncode == 0
            assert ignored == (output in cached), output
        for entry in [*spec.get("metrics", []), *plots]:
            assert next(iter(entry.values()))["cache"] is False, stage
        assert {Path(name).suffix for plot in plots for name in plot} <= {".csv", ".json"}


# ---- packages


def test_the_lock_files_pin_every_package_of_the_project_and_the_numeric_ones_by_themselves():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    locks = {name: (ROOT / name).read_text() for name in ("numerics.lock", "requirements.lock", "cluster.lock")}
    pinned = {name: dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)) for name, text in locks.items()}
    assert set(pinned["numerics.lock"]) == {"llvmlite", "numba", "numpy", "safetensors", "tokenizers", "torch"}
    assert "-r numerics.lock" in locks["requirements.lock"]
    assert "+" not in locks["numerics.lock"]
    assert "+cpu" not in locks["requirements.lock"]
    normal = {re.sub(r"[-_.]+", "-", name).lower() for names in pinned.values() for name in names}
    assert {re.sub(r"[-_.]+", "-", Requirement(each).name).lower() for each in asked} <= normal


def test_a_snapshot_runs_its_own_code_although_bukva_is_installed_from_another_folder(tmp_path):
    def folder_of_bukva(prefix):
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = f"{prefix} {shlex.quote(sys.executable)} -c 'import bukva; print(bukva.__path__[0])'"
        return subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)

    (tmp_path / "src" / "bukva").mkdir(parents=True)
    (tmp_path / "src" / "bukva" / "__init__.py").touch()
    installed = folder_of_bukva("")
    assert installed.returncode == 0, "bukva is not installed; make check installs it"
    assert not installed.stdout.startswith(str(tmp_path))
    [prefix] = {spec["cmd"].partition(" ")[0] for spec in pipeline().values()}
    assert folder_of_bukva(prefix).stdout.strip() == str(tmp_path / "src" / "bukva")
