"""Every row of the bench measures something: each runs here once, on texts of a few kilobytes and with few steps."""

import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
from functools import partial

import pytest
from imports import ROOT
from ruamel.yaml import YAML

from bench import (
    corpora,
    counting,
    generation,
    growth,
    job,
    pipeline,
    playground,
    race,
    race_jobs,
    report,
    scoring,
    setting,
    text,
    training,
)
from bench.__main__ import ROWS
from bench.measure import Outcome
from bench.plain import gpt
from bukva.core.files import sha256
from bukva.corpus.sources import download
from chaos.project import WORK as SAMPLE
from chaos.project import Project

WITH_DVC = ("data", "start")  # repro and idle: tests/dvc/test_story.py
QUICK = ("counting", "training", "generation", "playground", "scoring", "clean", "tokenize", *WITH_DVC, "repro", "idle")
N_STEPS = 6  # one for each point of the figure
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
def project(mirror, tmp_path_factory):
    """A small project, for the rows that measure DVC in a clone; these texts are its corpora."""
    small = Project(tmp_path_factory.mktemp("project") / "bukva")
    small.folder.mkdir()
    small.create()
    shutil.copy(mirror / "sources.yaml", small.folder / "src/bukva/corpus/sources/sources.yaml")
    small.commit("small texts")
    return small.folder


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """The folder that all rows share."""
    return tmp_path_factory.mktemp("scratch")


def run_here(name, **arguments):
    """bench.measure.job in this process, which has the small sizes; what passes between processes is JSON."""
    values = job.JOBS[name](**json.loads(json.dumps(arguments, default=str)))
    return Outcome(1000.0, 1, json.loads(json.dumps(values)))


@pytest.fixture
def small(mirror, tmp_path, monkeypatch):
    """Small texts and sizes, and jobs in this process."""
    monkeypatch.setenv("BUKVA_MIRROR", str(mirror))
    monkeypatch.setattr(download, "REGISTRY", mirror / "sources.yaml")
    for module in (corpora, counting, generation, growth, playground, race, scoring, text, training):
        monkeypatch.setattr(module, "job", run_here)
    for module in (counting, text):
        monkeypatch.setattr(module, "RUNS", 1)
    for module in (generation, playground):
        monkeypatch.setattr(module, "N_CHARS", 20)  # longer than the block
    for name, size in SHAPE.items():
        for shape in (setting.SHAPE, setting.MODEL):
            monkeypatch.setitem(shape, name, size)
    for recipe in race_jobs.RECIPES.values():
        monkeypatch.setitem(recipe, "model", recipe["model"] | SHAPE)
        monkeypatch.setitem(recipe, "train_gpt", recipe["train_gpt"] | {"n_steps": N_STEPS, "warmup_steps": 1})
    monkeypatch.setattr(gpt, "Recipe", partial(gpt.Recipe, n_steps=2, eval_every=1, eval_batches=1))
    monkeypatch.setattr(generation, "MANY", 2)
    monkeypatch.setattr(playground, "N_TEXTS", 1)
    monkeypatch.setattr(training, "PEAK_SIZE", 64)
    monkeypatch.setattr(race, "SEEDS", race.SEEDS[:1])
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # as all tests
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


def measured(name, scratch):
    row = ROWS[name]
    record = report.record(row, row.measure(scratch), seconds=1.0)
    scores = json.loads(json.dumps(record))["scores"]
    assert scores
    assert all(math.isfinite(score["value"]) for score in scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ROWS if name not in (*WITH_DVC, "repro", "idle")])
def test_a_row_runs_on_a_small_text(name, small, scratch):
    measured(name, scratch)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_DVC)
def test_a_row_of_the_pipeline_runs_in_a_small_project(name, small, scratch, project, monkeypatch):
    monkeypatch.setattr(pipeline, "ROOT", project)
    for runs in ("DATA_RUNS", "START_RUNS"):
        monkeypatch.setattr(pipeline, runs, 1)
    measured(name, scratch)


@pytest.mark.nightly
def test_the_command_measures_rows_at_their_full_length_in_processes_of_their_own(mirror, tmp_path):
    """Those that train for minutes on any text are left out."""
    clone = tmp_path / "bukva"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    shutil.copy(mirror / "sources.yaml", clone / "src/bukva/corpus/sources/sources.yaml")
    # row data clones the clone, which has what is committed
    own = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    subprocess.run(["git", *own, "commit", "-q", "-a", "-m", "small texts"], cwd=clone, check=True)
    environment = os.environ | {"PYTHONPATH": "src", "BUKVA_MIRROR": str(mirror)}
    subprocess.run([sys.executable, "-m", "bench", *QUICK], cwd=clone, env=environment, check=True)
    measured = json.loads((clone / "reports" / "bench.json").read_text(encoding="utf-8"))["rows"]
    assert set(QUICK) <= set(measured)
