"""dvc.yaml, the scripts, params.yaml and .gitignore agree."""

import ast
import itertools
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache

import yaml
from imports import ROOT, imported, modules, reached
from packaging.requirements import Requirement

from bukva.config.schema import Params
from bukva.pipeline.stages import LABELS, stages, trained_models

STAGES = ["download", "clean", "tokenize", "split", "train-bigram", "train-gpt", "evaluate", "sample", "publish"]

# Code that stages import and DVC does not watch, because it cannot change a byte of an output. Each has its reason.
NOT_DEPS = {
    "bukva": "gives bukva.load to other programs",
    "bukva.base.errors": "a stage that raises has no outputs",
    "bukva.base.dotted": "names of parameters in MLflow",
    "bukva.base.progress": "shows progress in the terminal",
    "bukva.base.redact": "removes secrets from messages and logs",
    "bukva.base.threads": "how many cores there are, how idle threads wait, and how large pages are",
    "bukva.config": "accepts or rejects values and never changes one (tests/config); the values are `params`",
    "bukva.durability": "a resumed training ends in the same bytes (tests/dvc/test_story.py)",
    "bukva.generation.learning": "draws text from random numbers of its own (tests/generation/test_learning.py)",
    "bukva.pipeline": "reads dvc.yaml and dvc.lock; the command and the paths are in dvc.lock",
    "bukva.stage.arguments": "help texts",
    "bukva.stage.cli": "passes the arguments of the command, which DVC watches",
    "bukva.tracking": "reads outputs and writes none",
    "bukva.training.memory": "refuses what does not fit, or does nothing",
    "bukva.training.progress": "shows progress in the terminal and in the journal",
    "stages": "how threads wait, how large pages are, and no byte code",
}
# Data files that code reads, which an import does not show.
DATA_DEPS = {
    "download": ["src/bukva/corpus/sources/sources.yaml"],
    "clean": [f"src/bukva/corpus/cleaning/rules/{name}.yaml" for name in ("literary", "notes")],
    "tokenize": ["src/bukva/encoding/prompts.yaml"],
    "evaluate": ["src/bukva/pipeline/labels.yaml"],
    "sample": ["src/bukva/pipeline/labels.yaml", "src/bukva/encoding/prompts.yaml"],
}

OPTIMIZERS = {"adamw": ["bukva.training.optimizers.adamw"], "muon": ["bukva.training.optimizers.muon"]}
TOKENIZER_MODULES = ["bukva.tokenizers.char", "bukva.tokenizers.byte", "bukva.tokenizers.bpe"]
MODEL_MODULES = ["bukva.models.bigram", "bukva.models.gpt"]
# Modules that a stage imports by a name from a registry, which its source does not show.
CHOSEN = {
    "tokenize": TOKENIZER_MODULES,
    "train-bigram": [*TOKENIZER_MODULES, "bukva.models.bigram", *OPTIMIZERS["adamw"]],
    "train-gpt": [*TOKENIZER_MODULES, "bukva.models.gpt", *OPTIMIZERS["adamw"], *OPTIMIZERS["muon"]],
    "evaluate": [*TOKENIZER_MODULES, *MODEL_MODULES],
    "sample": [*TOKENIZER_MODULES, *MODEL_MODULES],
}


@cache
def pipeline():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    paths = content["vars"][0]["path"]
    text = re.sub(r"\$\{path\.(\w+)\}", lambda match: paths[match[1]], text)
    text = text.replace("${download.path}", "data/sample").replace("${clean.file}", "rules/example.yaml")
    return yaml.safe_load(text)


def names(entries):
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


def outputs(stage):
    spec = pipeline()["stages"][stage]
    return [name for key in ("outs", "metrics", "plots") for name in names(spec.get(key, []))]


def script(stage):
    return f"stages.{stage.replace('-', '_')}"


def test_the_stages_are_these_and_each_has_its_script():
    assert list(pipeline()["stages"]) == list(stages()) == STAGES
    assert {name for name in modules() if name.startswith("stages.")} == set(map(script, STAGES))


def code_of(stage):
    """The modules of ours that can change a byte of the outputs of a stage."""
    return reached(script(stage), except_for=NOT_DEPS, also=CHOSEN.get(stage, ()))


def files_in(folder):
    """The files with code or data in a folder that a stage depends on as a whole."""
    found = [file for file in (ROOT / folder).rglob("*.*") if file.suffix in {".py", ".yaml"}]
    return [str(file.relative_to(ROOT)) for file in found if file.suffix == ".yaml" or has_code(file)]


def has_code(file):
    """Whether a module is more than a docstring."""
    return len(ast.parse(file.read_text(encoding="utf-8")).body) > 1 or file.name != "__init__.py"


def test_the_registries_name_the_modules_of_this_test():
    from bukva.models.registry import MODELS
    from bukva.tokenizers import TOKENIZERS
    from bukva.training.optimizers import OPTIMIZERS as REGISTERED

    assert {name: [module] for name, module in REGISTERED.items()} == OPTIMIZERS
    assert [name.partition(":")[0] for name in TOKENIZERS.values()] == TOKENIZER_MODULES
    assert list(MODELS.values()) == MODEL_MODULES


def test_deps_are_exactly_the_code_that_the_script_reaches():
    for stage in STAGES[:-1]:  # publish has no outputs, so no code can change them
        all_deps = names(pipeline()["stages"][stage]["deps"])
        deps = [dep for dep in all_deps if dep.startswith(("src/", "stages/"))]
        used = [script(stage), *code_of(stage)]
        files = {modules()[name] for name in used}
        needed = {str(file.relative_to(ROOT)) for file in files if has_code(file)} | set(DATA_DEPS.get(stage, []))
        listed = [file for dep in deps for file in ([dep] if dep in needed else files_in(dep))]
        assert sorted(listed) == sorted(needed), stage
        computes = any({"torch", "tokenizers"} & imported(name) for name in used)
        assert ("numerics.lock" in all_deps) == computes, stage


def test_evaluate_and_sample_depend_on_every_trained_model_and_its_label():
    assert [(model.name, model.label) for model in trained_models().values()] == [("bigram", "bigram"), ("gpt", "GPT")]
    for name, model in trained_models().items():
        assert [str(model.folder), str(model.curve)] == outputs(f"train-{name}")
        assert {str(model.folder), str(model.curve)} <= set(pipeline()["stages"]["evaluate"]["deps"])
        assert str(model.folder) in pipeline()["stages"]["sample"]["deps"]
    for stage in ("evaluate", "sample"):
        assert str(LABELS.relative_to(ROOT)) in pipeline()["stages"][stage]["deps"]


def test_the_arguments_of_a_command_are_inputs_or_outputs():
    for stage, spec in pipeline()["stages"].items():
        arguments = shlex.split(spec["cmd"])[4:]
        assert set(outputs(stage)) <= set(arguments), stage
        assert set(arguments) <= {*names(spec["deps"]), *outputs(stage)}, stage


def test_every_section_of_parameters_is_one_of_some_stage():
    sections = itertools.chain(*(stage.sections for stage in stages().values()))
    assert set(sections) == set(Params.model_fields)


def test_a_stage_depends_on_whole_outputs_of_others():
    """DVC fails to restore a stage that depends on a file in an output folder of which dvc.lock has a version that is
    not in the cache."""
    written = {out for stage in STAGES for out in outputs(stage)}
    for stage in STAGES:
        for dep in names(pipeline()["stages"][stage]["deps"]):
            assert dep in written or not dep.startswith(("data/", "reports/")) or dep == "data/sample", dep


def test_data_and_pictures_are_ignored_by_git_and_small_reports_keep_the_run_cache():
    """A plain out with cache: false loses it; metrics and plots of a stage keep it (treeverse/dvc#8738)."""
    for stage, spec in pipeline()["stages"].items():
        for output in outputs(stage):
            ignored = subprocess.run(["git", "check-ignore", "-q", output], cwd=ROOT).returncode == 0
            assert ignored == (output.startswith("data/") or output.endswith(".png")), output
        assert all(isinstance(out, str) for out in spec.get("outs", [])), stage
        for entry in [*spec.get("metrics", []), *spec.get("plots", [])]:
            assert str(entry).endswith(".png") or next(iter(entry.values()))["cache"] is False, stage


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
    [prefix] = {stage.command.partition(" ")[0] for stage in stages().values()}
    assert folder_of_bukva(prefix).stdout.strip() == str(tmp_path / "src" / "bukva")
