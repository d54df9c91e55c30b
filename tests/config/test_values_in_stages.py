"""Whatever params.yaml contains, the stages succeed or reject it in a sentence: no traceback and no hang.

All stages run once, so that whatever is loaded late is loaded. Then each case runs in a fork and a copy of the project,
so a case that hangs, dies or exhausts its memory is noticed and does not disturb the others.
"""

import copy
import importlib
import inspect
import itertools
import json
import math
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import pytest
from imports import ROOT

from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS, parse_params, read_yaml
from bukva.config.messages import WAY_BACK
from bukva.pipeline.stages import paths, recorded_stages
from chaos.project import SMALL

pytestmark = pytest.mark.nightly

CASE_SECONDS = 180  # a hang; the slowest case takes 5, and much more when other programs need the cores
CASE_BYTES = 16 << 30  # so that a case that fails does not exhaust the machine
ATTENTION = "attention"  # `bukva attention`, which reads the section evaluate as a stage does
STAGES = [*(stage.module for stage in recorded_stages().values()), ATTENTION]
# The first and the last stage that a section can disturb. The study of attention takes ten times as long as all stages
# together, so it runs only for the section evaluate, and for what may disturb it.
REACHED = {
    "download": ("download", "split"),
    "clean": ("clean", "split"),
    "tokenize": ("tokenize", "sample"),
    "split": ("tokenize", "evaluate"),
    "model": ("train_gpt", "sample"),
    "compute": ("train_bigram", "sample"),
    "train_bigram": ("train_bigram", "train_bigram"),
    "train_gpt": ("train_gpt", "train_gpt"),
    "evaluate": ("tokenize", "attention"),
    "sample": ("sample", "sample"),
}

SECTIONS = read_yaml(ROOT / PARAMS)
SECTIONS |= {section: SECTIONS[section] | values for section, values in SMALL.items()}
SECTIONS["download"]["path"], SECTIONS["compute"]["device"] = "book.txt", "cpu"
KEYS = [f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys]

# Every key gets each of these: limits, absurd ones, texts, lists and other types.
VALUES = [
    *[None, True, False, {"a": 1}, b"8", math.nan, -math.inf, 1 << 20_000, 10**400, -(10**12)],
    *[0, 1, 2, 3, 16, 20, 263, 10**8, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -1],
    *[0.0, -0.0, 5e-324, 1e-45, 1e-3, 0.3, 0.9999999999999999, 1.0, 30.0, 1e40, 1.7e308, -1e-3],
    *["", "8", " ", "\n", "а", "Было\r\nэто", "б" * 16, "б" * 17, "\0", "`|#", "Ё" * 100_000, "\U0001f600", "\ud800"],
    *[
        ".",
        "book.txt/",
        "dvc.yaml",
        "empty.txt",
        "latin.txt",
        "a" * 5000,
        "~nobody-of-this-name/a",
        "../b",
        "[",
        "a" * 64,
    ],
    *[[], [""], ["\n"], ["а", []], ["а" * 5000], ["`|#\r\n"], [1], [3.0], [8, 3], [3, 3], list(range(3, 9)) * 1000],
    *[[".py"], [".ж"], [".*"], ["stress_accents"], ["latin_passages", "stress_accents"], "auto", ["auto"], [["а"]]],
]
ADDRESSES = [
    *["http://127.0.0.1:1/a.txt", "http://127.0.0.1:1/?key=secret", "http://.x/", "http://*/", "http://" + "ж" * 300],
    *["http://[::1", "http://[v1.x]/", "http://127.0.0.1:99999/", "http://℀.com/", "https://me:se?cret/@127.0.0.1:1/a"],
]
NETWORK = [("download.corpus", name) for name in ("ruslit", "tinyshakespeare", "huggingface", "url")]
# without corpus url or huggingface
UNREAD = {"download.url", "download.sha256", "download.dataset", "download.revision", "download.files"}
# Larger values are valid too, but take longer or more memory than a test has; processes are tested in tests/dvc.
LARGEST = {
    "model.n_layer": 3, "model.n_embd": 20, "compute.threads": 20, "train_gpt.processes": 1,
    "train_bigram.n_steps": 20, "train_bigram.batch_size": 32, "train_bigram.micro_batches": 32,
    "train_gpt.n_steps": 20, "train_gpt.batch_size": 32, "train_gpt.micro_batches": 32,
    "evaluate.attention_windows": 3, "evaluate.leak_steps": 3, "evaluate.context_chars": 20,
    "evaluate.short_context": 16, "sample.n_chars": 20,
}  # fmt: skip
# Keys that depend on each other, and what failed once.
COMBINATIONS = [
    {"split.train": 0.95, "split.val": 0.05, "split.test": 0},
    {"split.train": 0.01, "split.val": 0.98, "split.test": 0.01},
    {"split.train": 5e-324, "split.val": 0.5, "split.test": 0.5},
    {"train_gpt.learning_rate": 1.7e308, "train_gpt.weight_decay": 1.7e308, "train_gpt.optimizer": "adamw"},
    {"compute.precision": "bf16", "model.dropout": 0.5},
    {"sample.temperature": 5e-324, "sample.top_p": 5e-324, "sample.top_k": 10**12},
    {"sample.prompts": ["а\U0001f600"], "sample.unknown": "drop"},
    {"model.n_layer": 3, "model.n_head": 8, "model.positions": "none", "evaluate.attention_sentence": "Было это"},
    {"model.positions": "learned", "model.tie_weights": True, "model.bias": True, "evaluate.attention_sentence": "а"},
    {"evaluate.attention_windows": 10**9, "evaluate.context_chars": 10**12},
    {"model.block_size": 3, "evaluate.short_context": 3, "model.ngrams": "input", "model.ngram_orders": [12, 2]},
    *[{"clean.rules": "file", "clean.file": file} for file in VALUES if isinstance(file, str)],
    *[{"download.corpus": "url", "download.url": url, "download.sha256": "a" * 64} for url in ADDRESSES],
]


def with_changes(changes):
    """The sections with other values, by section.key."""
    sections = copy.deepcopy(SECTIONS)
    for name, value in changes.items():
        section, key = name.split(".")
        sections[section][key] = value
    return sections


def rejection(changes):
    """The message of the schema, or nothing for valid parameters."""
    try:
        parse_params(with_changes(changes), "params.yaml")
    except BukvaError as error:
        return str(error)
    return ""


def values_of(key):
    """All of VALUES, and the names that a key of names takes."""
    names = rejection({key: "no such name"}).partition("is unknown; use ")[2]
    return [*VALUES, *re.findall(r"'(\w+)'", names)]


def stages_of(changes):
    reached = [STAGES.index(stage) for name in changes for stage in REACHED[name.split(".")[0]]]
    return STAGES[min(reached) : max(reached) + 1]


def runnable_values():
    """Each value of each key that the schema accepts and a test has the time for."""
    for key in KEYS:
        for value in values_of(key):
            if key in UNREAD or (key, value) in NETWORK or rejection({key: value}):
                continue
            if key not in LARGEST or value <= LARGEST[key]:
                yield {key: value}


def pairs(values, n_cases):
    """Random values of two keys; those that the schema accepts."""
    rng = random.Random(0)
    cases = (first | second for first, second in (rng.sample(values, 2) for _ in itertools.count()))
    return list(itertools.islice((changes for changes in cases if not rejection(changes)), n_cases))


def run_here(changes, stages):
    """Run stages in the current folder: {} in success, {"rejected": sentence} or {"failed": why}."""
    text = json.dumps(with_changes(changes), ensure_ascii=False)  # JSON is YAML, and keeps every number
    PARAMS.write_text(text, encoding="utf-8")
    try:
        for stage in stages:
            if stage == ATTENTION:
                importlib.import_module("bukva.cli.studies").attention()
            else:
                main = importlib.import_module(f"stages.{stage}").main
                main(*(Path(paths()[name]) for name in inspect.signature(main).parameters))
    except BukvaError as error:
        return {"rejected": str(error)}
    except BaseException:
        return {"failed": traceback.format_exc()}
    return {}


def run_in_fork(changes, template):
    """The same in a process and a copy of the project; a hang or the death of the process is a failure."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as answer:
        shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
        child = os.fork()
        if not child:
            os.chdir(folder)
            os.environ["DVC_ROOT"] = folder
            resource.setrlimit(resource.RLIMIT_AS, (CASE_BYTES, CASE_BYTES))
            json.dump(run_here(changes, stages_of(changes)), answer)
            answer.flush()
            os._exit(0)
        ends_at, done = time.monotonic() + CASE_SECONDS, 0
        while not done and time.monotonic() < ends_at:
            time.sleep(0.005)
            done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return {"failed": f"hangs: not done in {CASE_SECONDS} s"}
        answer.seek(0)
        text = answer.read()
        return json.loads(text) if text and not status else {"failed": f"died with status {status}"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a text of 3,000 characters, in which all stages have run."""
    for name in ("src", "stages", "rules", "dvc.yaml", "numerics.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    book = (ROOT / "data/sample/prose/skazki/sem_par_laptey.txt").read_text(encoding="utf-8")[:3000]
    (tmp_path / "book.txt").write_text(book, encoding="utf-8")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes("Café".encode("latin-1"))
    monkeypatch.setattr("bukva.corpus.sources.fetching.BACKOFF_SECONDS", 0)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # so that no second process starts beside a training
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(action="ignore"):
        assert run_here({}, STAGES) == {}
        yield tmp_path


def is_sentence(message):
    message = message.removesuffix(WAY_BACK).rstrip("\n")
    return message.isprintable() and len(message) < 2500 and "secret" not in message


def test_every_value_is_valid_or_rejected_in_a_sentence():
    for key in KEYS:
        for value in [*values_of(key), *ADDRESSES]:
            if message := rejection({key: value}):
                assert key.split(".")[0] in message
                *mistakes, way_back = message.split("\n")
                assert way_back == WAY_BACK
                assert all(map(is_sentence, mistakes)), message


def test_every_accepted_value_succeeds_in_its_stages_or_is_rejected_in_a_sentence(project):
    values = list(runnable_values())
    cases = [*values, *(changes for changes in COMBINATIONS if not rejection(changes)), *pairs(values, n_cases=20)]
    for changes in cases:
        outcome = run_in_fork(changes, project)
        assert "failed" not in outcome, f"{changes}: {outcome['failed']}"
        assert is_sentence(outcome.get("rejected", ".")), f"{changes}: {outcome}"
