"""dvc.yaml, the scripts, params.yaml and .gitignore say the same."""

import ast
import importlib
import inspect
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
import yaml
from imports import ROOT, imported, modules, reached
from ruamel.yaml import YAML

from bukva.config.schema import SECTIONS, Params

STAGES = ["download", "clean", "tokenize", "split", "train-bigram", "train-gpt", "evaluate", "sample", "publish"]

# Code that stages import and DVC does not watch, because it cannot change a byte of an output.
NOT_DEPS = {
    "bukva": "holds a docstring",
    "bukva.durability.parent": "ends a stage that nobody waits for",
    "bukva.stage.cli": "arguments and help; the arguments stand in the command, which DVC watches",
    "bukva.pipeline.dvc": "what checkpoints are found by",
    "bukva.durability.cleanup": "when they go",
    "bukva.base.errors": "the type of an error: a stage that raises it has no outputs",
    "bukva.base.progress": "what is shown while waiting",
    "bukva.tracking": "journal and MLflow; they read outputs and write none",
    "stages": "how threads wait",
}
# bukva.corpus.sources reads it, and an import does not tell.
DATA_DEPS = {"download": ["src/bukva/corpus/sources.yaml"], "clean": ["src/bukva/corpus/rules"]}


def pipeline():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    paths = content["vars"][0]["path"]
    text = re.sub(r"\$\{path\.(\w+)\}", lambda match: paths[match[1]], text)
    return yaml.safe_load(text.replace("${download.path}", "data/sample"))


def names(entries):
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


def outputs(stage):
    spec = pipeline()["stages"][stage]
    return [name for key in ("outs", "metrics", "plots") for name in names(spec.get(key, []))]


def script(stage):
    return f"stages.{stage.replace('-', '_')}"


def test_the_stages_are_these_and_each_has_its_script():
    assert list(pipeline()["stages"]) == STAGES
    assert {name for name in modules() if name.startswith("stages.")} == set(map(script, STAGES))


@pytest.mark.parametrize("stage", STAGES)
def test_deps_are_exactly_the_code_that_the_script_reaches(stage):
    if stage == "publish":  # no outputs, so no code can change them
        return
    deps = [dep for dep in names(pipeline()["stages"][stage]["deps"]) if dep.startswith(("src/", "stages/"))]
    used = [script(stage), *reached(script(stage), except_for=NOT_DEPS)]
    reaches = {str(modules()[name].relative_to(ROOT)) for name in used} | set(DATA_DEPS.get(stage, []))
    reaches = {file for file in reaches if not file.endswith("__init__.py")}
    for file in reaches:
        assert any(file == dep or file.startswith(f"{dep}/") for dep in deps), f"{stage} forgets {file}"
    for dep in deps:
        assert any(file == dep or file.startswith(f"{dep}/") for file in reaches), f"{stage} does not use {dep}"


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_computes_depends_on_the_pins_of_the_numeric_packages(stage):
    computes = any("torch" in imported(name) for name in [script(stage), *reached(script(stage), except_for=NOT_DEPS)])
    assert ("numerics.lock" in names(pipeline()["stages"][stage]["deps"])) == computes


def test_every_section_of_the_parameters_belongs_to_a_stage():
    sections = {stage: tuple(pipeline()["stages"][stage].get("params", ())) for stage in STAGES}
    assert {stage: set(named) for stage, named in sections.items() if named} == {k: set(v) for k, v in SECTIONS.items()}
    assert set().union(*sections.values()) == set(Params.model_fields)


@pytest.mark.parametrize("stage", STAGES)
def test_a_script_takes_as_many_arguments_as_its_command_gives(stage):
    words = shlex.split(pipeline()["stages"][stage]["cmd"])
    assert words[:4] == ["PYTHONPATH=src", "python", "-m", script(stage)]
    main = importlib.import_module(script(stage)).main
    assert len(words) - 4 == len(inspect.signature(main).parameters)


@pytest.mark.parametrize("stage", STAGES)
def test_the_arguments_of_a_command_are_its_inputs_and_outputs(stage):
    spec = pipeline()["stages"][stage]
    data = [dep for dep in names(spec["deps"]) if dep.startswith(("data/", "reports/")) and dep != "data/sample"]
    arguments = shlex.split(spec["cmd"])[4:]
    assert set(outputs(stage)) <= set(arguments)
    if stage != "publish":
        folders = {dep.removesuffix("/documents.csv") for dep in data}
        assert set(arguments) == folders | set(outputs(stage))


@pytest.mark.parametrize("stage", STAGES)
def test_every_script_explains_itself(stage):
    from bukva.stage import cli

    help_text = subprocess.run(
        [sys.executable, "-m", script(stage), "--help"], cwd=ROOT, env={"PYTHONPATH": "src"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "Usage:" in help_text
    assert importlib.import_module(script(stage)).main.__doc__.split(".")[0].split("\n")[0][:40] in help_text
    assert cli.STYLE["pretty_exceptions_enable"] is False


def test_a_stage_is_a_sentence():
    for stage in STAGES:
        tree = ast.parse(modules()[script(stage)].read_text())
        loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
        decisions = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
        assert not loops, stage
        assert len(decisions) == 1, stage  # if __name__ == "__main__"


def test_outputs_of_dvc_are_ignored_by_git_and_reports_are_not():
    for stage in STAGES:
        for output in outputs(stage):
            ignored = subprocess.run(["git", "check-ignore", "-q", output], cwd=ROOT).returncode == 0
            assert ignored == output.startswith("data/"), output


def test_uncached_outputs_keep_the_run_cache():
    """A plain out with cache: false loses it; metrics and plots of a stage keep it (treeverse/dvc#8738)."""
    for stage, spec in pipeline()["stages"].items():
        assert all(isinstance(out, str) for out in spec.get("outs", [])), stage
        for key in ("metrics", "plots"):
            assert all(next(iter(entry.values()))["cache"] is False for entry in spec.get(key, [])), stage


def test_the_numeric_pins_are_those_of_the_lock_file():
    pins = dict(line.split("==") for line in (ROOT / "numerics.lock").read_text().splitlines() if "==" in line)
    assert set(pins) == {"numpy", "safetensors", "torch"}
    assert "+" not in (ROOT / "numerics.lock").read_text()
    lock = (ROOT / "requirements.lock").read_text()
    assert "-r numerics.lock" in lock
    assert "+cpu" not in lock


def test_dvc_reads_the_parameters_as_we_do():
    raw = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    assert Params.model_validate(raw).model_dump() == raw


def test_the_lock_file_pins_every_package_that_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    text = "\n".join((ROOT / name).read_text() for name in ("numerics.lock", "requirements.lock"))
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE))
    normal = {re.sub(r"[-_.]+", "-", name).lower() for name in pinned}
    assert {re.sub(r"[-_.]+", "-", name.split("==")[0]).lower() for name in asked} <= normal
    assert pinned["torch"] == "2.13.0"


def test_every_package_that_is_imported_is_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {name.split("==")[0] for name in project["dependencies"]}
    names = {"yaml": "pyyaml", "ruamel": "ruamel.yaml", "pydantic_core": "pydantic", "urllib3": "requests"}
    ours = {"bukva", "stages", "__future__"}
    used = (
        {item for name in modules() for item in imported(name) if item not in modules()}
        - sys.stdlib_module_names
        - ours
    )
    assert {names.get(item, item) for item in used} <= asked
