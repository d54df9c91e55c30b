"""Every row of the bench measures something: each runs here once, on texts of a few kilobytes and with few steps."""

import json
import math
import os
import shutil
import subprocess
import tarfile
from functools import partial

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from bench import gpu, jobs, rows
from bench.measure import Outcome
from bench.plain import gpt, nanogpt
from bukva.core.files import sha256
from bukva.corpus.sources import download
from tests.support.imports import ROOT
from tests.support.project import SMALL, Project
from tests.support.project import WORK as SAMPLE

IN_CLONES = ("default", "training", "repro", "ruslit")
SHAPE = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16}


@pytest.fixture(scope="module")
def mirror(tmp_path_factory):
    """A mirror with small texts under the names of the corpora; sources.yaml beside them has their digests."""
    folder = tmp_path_factory.mktemp("mirror")
    shakespeare = folder / "tinyshakespeare.txt"
    shakespeare.write_text("ROMEO:\nBut, soft! what light through yonder window breaks?\n\n" * 100, encoding="utf-8")
    work = folder / "tree" / "poems" / "Blok" / "1.txt"
    work.parent.mkdir(parents=True)
    work.write_text((ROOT / SAMPLE).read_text(encoding="utf-8")[:9000], encoding="utf-8")
    sources = YAML().load(ROOT / "src/bukva/corpus/sources/sources.yaml")
    ruslit = sources["ruslit"]
    with tarfile.open(folder / ruslit["file"], "w:gz") as archive:
        archive.add(folder / "tree", ruslit["root"])
    sources["tinyshakespeare"]["sha256"] = sha256(shakespeare)
    ruslit.update(folders={"poems": download.folder_digest(folder / "tree" / "poems")}, encodings={})
    YAML().dump(sources, folder / "sources.yaml")
    return folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


def run_here(name, **arguments):
    """bench.measure.job in this process, which has the small sizes; what passes between processes is JSON."""
    values = jobs.JOBS[name](**json.loads(json.dumps(arguments, default=str)))
    return Outcome(1000.0, 1, json.loads(json.dumps(values)))


@pytest.fixture
def small(mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("BUKVA_MIRROR", str(mirror))
    monkeypatch.delenv("BUKVA_NANOGPT", raising=False)
    monkeypatch.setattr(download, "REGISTRY", mirror / "sources.yaml")
    monkeypatch.setattr(rows, "job", run_here)
    for name in ("PAIRS", "RUNS"):
        monkeypatch.setattr(rows, name, 1)
    monkeypatch.setattr(jobs, "N_CHARS", 20)  # longer than the block
    monkeypatch.setitem(jobs.BABY, "model", SHAPE | {"dropout": 0.2})
    for recipe in jobs.RECIPES.values():
        monkeypatch.setitem(recipe, "model", recipe["model"] | SHAPE)
        monkeypatch.setitem(recipe, "train_gpt", recipe["train_gpt"] | {"n_steps": 2, "warmup_steps": 1})
    monkeypatch.setattr(gpt, "Recipe", partial(gpt.Recipe, n_steps=2, eval_every=1, eval_batches=1))
    monkeypatch.setattr(rows, "SEEDS", rows.SEEDS[:1])
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # as all tests
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


def measured(name, scratch):
    lines = rows.ROWS[name](scratch)
    assert lines
    assert all(math.isfinite(value) for line in lines for value in [*line.ours, *line.plain])
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(rows.ROWS.keys() - IN_CLONES))
def test_a_row_runs_on_a_small_text(name, small, scratch):
    measured(name, scratch)


@pytest.mark.slow
def test_nanogpts_own_program_is_the_plain_side_where_it_is_available(small, tmp_path, monkeypatch):
    """A checkout whose programs print what nanoGPT's print."""
    checkout = tmp_path / "nanoGPT"
    data = checkout / "data" / "shakespeare_char"
    data.mkdir(parents=True)
    (data / "prepare.py").write_text("print(len(open('input.txt').read()))")
    printed = [
        "step 0: train loss 4.2, val loss 4.3",
        "iter 1: loss 4.1, time 12.50ms",
        "step 2: train loss 1, val loss 1.75",
    ]
    (checkout / "train.py").write_text(f"print(*{printed!r}, sep='\\n')")
    monkeypatch.setenv("BUKVA_NANOGPT", str(checkout))
    first, *_ = measured("race", tmp_path)
    assert nanogpt.update_ms(tmp_path / "nanogpt-race") == 12.5
    assert "plain: nanoGPT's train.py, all updates, at worst 1.750 by its own estimate" in first.what


def test_the_row_of_a_gpu_is_skipped_with_a_sentence_on_a_machine_without_one(tmp_path, capsys):
    assert gpu.gpu(tmp_path) == []
    assert capsys.readouterr().out == "    gpu: skipped, because this machine has no usable GPU.\n"


@pytest.mark.slow
def test_the_script_of_that_row_runs_on_a_cpu_with_tiny_sizes_and_trainings_are_equal(small):
    done = CliRunner().invoke(gpu.app, ["updates", "equal", "race", "--device", "cpu", "--quick"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("CPU, torch ")
    lines = [line.split(" | ") for line in done.stdout.splitlines() if " | " in line]
    assert [line[0] for line in lines].count("race") == 3
    same = [line for line in lines if line[0] == "equal"]
    assert [line[-1] for line in same] == ["yes"] * 4
    assert "resumed" in same[1][1]


@pytest.mark.nightly
def test_the_command_measures_the_rows_of_the_pipeline_in_clones_and_processes_of_their_own(mirror, tmp_path):
    project = Project(tmp_path / "bukva")
    project.env |= {"PYTHONPATH": "src", "BUKVA_MIRROR": str(mirror)}
    subprocess.run(["git", "clone", "-q", ROOT, project.folder], check=True)
    shutil.copy(mirror / "sources.yaml", project.folder / "src/bukva/corpus/sources/sources.yaml")
    # the default model, because an update of a smaller one takes less than the start of a stage varies
    project.set({section: values for section, values in SMALL.items() if section != "model"})
    project.edit("bench/rows.py", "PAIRS = 5", "PAIRS = 1")
    project.edit("bench/rows.py", "RUNS = 3", "RUNS = 1")
    project.commit("small, because rows of the pipeline clone what is committed")
    names = [name for name in rows.ROWS if name in IN_CLONES and name != "training"]  # its sizes take minutes
    project.run("python", "-m", "bench", *names)
    recorded = json.loads(project.read("reports/bench.json"))
    head = project.run("git", "rev-parse", "--short=12", "HEAD").strip()
    assert [name for name, row in recorded.items() if row["commit"] == head] == names
