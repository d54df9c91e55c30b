"""Test that stages succeed or end with an error message, without a traceback or a hang, for any params.yaml.

All stages run once, so that everything is imported. Then each case runs in a forked process in a copy of the project.
A case that hangs, crashes or runs out of memory fails and does not affect the other cases.
"""

import contextlib
import copy
import importlib
import json
import math
import os
import re
import resource
import shutil
import signal
import tempfile
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from bukva.core.errors import BukvaError
from bukva.core.params import PARAMS, parse_params, read_yaml
from bukva.project.stages import recorded_stages
from tests.support.imports import ROOT, SHIPPED
from tests.support.project import SMALL

pytestmark = pytest.mark.nightly

CASE_SECONDS = 180  # a longer case counts as a hang; the slowest case takes 5 s, and much more on busy cores
CASE_BYTES = 16 << 30  # memory limit, so that a failing case does not exhaust the machine
STAGES = [stage.replace("-", "_") for stage in recorded_stages()]
# The last stage that a section can affect, if it comes after all that read the section.
LAST = {
    "clean": "split", "split": "evaluate", "baselines": "evaluate", "tokenize": "sample", "model": "sample",
}  # fmt: skip

SECTIONS = read_yaml(SHIPPED)
SECTIONS |= {section: SECTIONS[section] | values for section, values in SMALL.items()}
SECTIONS["download"]["path"], SECTIONS["compute"]["device"] = "book.txt", "cpu"

# Every key is tested with each of these values: limits, absurd numbers, texts, lists and other types.
VALUES = [
    *[None, True, False, {"a": 1}, b"8", math.nan, -math.inf, 10**400, -(10**12)],
    *[0, 1, 2, 3, 16, 20, 263, 10**8, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -1],
    *[0.0, -0.0, 5e-324, 1e-45, 1e-3, 0.3, 0.9999999999999999, 1.0, 30.0, 1e40, 1.7e308, -1e-3],
    *["", "8", " ", "\n", "Было\r\nэто", "б" * 17, "\0", "`|#", "Ё" * 100_000, "\U0001f600", "\ud800"],
    *[".", "book.txt/", "dvc.yaml", "empty.txt", "latin.txt", "a" * 5000, "~nobody-of-this-name/a", "../b", "["],
    *[[], [""], ["\n"], ["а", []], ["а" * 5000], [1], [3.0], [8, 3], [3, 3], list(range(3, 9)) * 1000],
    *[[".py"], [".*"], "auto", ["auto"]],
    *["http://127.0.0.1:1/?key=secret", "http://[::1", "https://me:se?cret/@127.0.0.1:1/a"],
]
# Larger values are valid, but need too much time or memory for a test; tests/dvc tests several processes.
LARGEST = {
    "model.n_layer": 3, "model.n_embd": 20, "compute.threads": 20, "train_gpt.processes": 1,
    "train_bigram.n_steps": 20, "train_bigram.batch_size": 32,
    "train_gpt.n_steps": 20, "train_gpt.batch_size": 32, "train_gpt.micro_batches": 32,
    "evaluate.short_context": 16, "sample.n_chars": 20,
}  # fmt: skip
# Values of keys that depend on each other, and values that have failed before.
COMBINATIONS = [
    {"split.train": 0.01, "split.val": 0.98, "split.test": 0.01},
    {"split.train": 5e-324, "split.val": 0.5, "split.test": 0.5},
    {"train_gpt.learning_rate": 1.7e308, "train_gpt.weight_decay": 1.7e308, "train_gpt.optimizer": "adamw"},
    {"sample.temperature": 5e-324, "sample.top_p": 5e-324, "sample.top_k": 10**12},
    {"model.block_size": 3, "evaluate.short_context": 3, "model.ngrams": "input", "model.ngram_orders": [12, 2]},
    *[{"clean.rules": "file", "clean.file": file} for file in VALUES if isinstance(file, str)],
    *[{"download.corpus": "url", "download.url": url, "download.sha256": "a" * 64} for url in VALUES[-3:]],
]


def with_changes(changes):
    sections = copy.deepcopy(SECTIONS)
    for name, value in changes.items():
        section, key = name.split(".")
        sections[section][key] = value
    return sections


def rejection(changes):
    """Return the error message of the validation, or "" for valid parameters."""
    try:
        parse_params(with_changes(changes), "params.yaml")
    except BukvaError as error:
        return str(error)
    return ""


def cases():
    """Yield each value for each key, including its valid names (for download.corpus those that need no network)."""
    for key in (f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys):
        listed = rejection({key: "no such name"}).partition("is not a valid value. Use ")[2]
        names = re.findall(r"'(\w+)'", listed) if key != "download.corpus" else ["sample", "local"]
        # an error message repeats download.path, so addresses with secrets are left out
        values = VALUES[:-3] if key == "download.path" else VALUES
        yield from ({key: value} for value in [*values, *names])
    yield from COMBINATIONS


def stages_of(changes):
    """Return the stages from the first that reads one of the parameters to the last that they can affect."""
    sections = {name.split(".")[0] for name in changes}
    reached = [STAGES.index(LAST[section]) for section in sections & LAST.keys()]
    reached += [n for n, stage in enumerate(recorded_stages().values()) if sections & {*stage.sections}]
    return STAGES[min(reached) : max(reached) + 1]


def _fail(*_, **__):
    raise OSError("no process is started in this test")


def run_here(changes, stages):
    """Run stages in the current folder. Return {} after success, else {"rejected": message} or {"failed": reason}."""
    text = json.dumps(with_changes(changes), ensure_ascii=False)  # JSON is valid YAML and preserves all numbers
    Path(PARAMS).write_text(text, encoding="utf-8")
    try:
        for stage in stages:
            importlib.import_module(f"stages.{stage}").main()
    except BukvaError as error:
        return {"rejected": str(error)}
    except BaseException:
        return {"failed": traceback.format_exc()}
    return {}


def run_in_fork(changes, template):
    """Run stages in a forked process in a copy of the project. A hang or a crash of the process counts as a failure."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as answer:
        shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
        child = os.fork()
        if not child:
            os.chdir(folder)
            os.environ["BUKVA_ROOT"] = folder
            signal.alarm(CASE_SECONDS)
            resource.setrlimit(resource.RLIMIT_AS, (CASE_BYTES, CASE_BYTES))
            json.dump(run_here(changes, stages_of(changes)), answer)
            answer.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        answer.seek(0)
        text = answer.read()
        return json.loads(text) if text and not status else {"failed": f"hung or died with status {status}"}


@contextlib.contextmanager
def project(folder):
    """Run all stages once in a new project, which the cases copy."""
    for name in ("src", "stages", "rules", "dvc.yaml", "numerics.lock"):
        (folder / name).symlink_to(ROOT / name)
    book = (ROOT / "data/sample/prose/skazki/sem_par_laptey.txt").read_text(encoding="utf-8")[:3000]
    (folder / "book.txt").write_text(book, encoding="utf-8")
    (folder / "empty.txt").touch()
    (folder / "latin.txt").write_bytes("Café".encode("latin-1"))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setattr("bukva.corpus.sources.fetching.BACKOFF_SECONDS", 0)
        for module in ("record", "publish"):  # so that no process that sends to MLflow is started
            patch.setattr(f"bukva.tracking.{module}.start_detached", _fail)
        # charts are drawn by threads, which do not exist in a forked process
        patch.setattr("vl_convert.vegalite_to_png", lambda *_, **__: b"")
        patch.setenv("BUKVA_ROOT", str(folder))
        patch.chdir(folder)
        assert run_here({}, STAGES) == {}
        yield


def is_sentence(message):
    message = message.rstrip("\n")
    return message.isprintable() and len(message) < 2500 and "secret" not in message


def check_cases(folder):
    with project(folder):
        for changes in cases():
            if message := rejection(changes):
                assert all(map(is_sentence, message.split("\n"))), message
            elif all(key not in LARGEST or value <= LARGEST[key] for key, value in changes.items()):
                outcome = run_in_fork(changes, folder)
                assert "failed" not in outcome, f"{changes}: {outcome['failed']}"
                assert is_sentence(outcome.get("rejected", ".")), f"{changes}: {outcome}"


def test_every_value_is_rejected_in_a_sentence_or_its_stages_succeed_or_reject_it_in_one(tmp_path):
    # in a new process, because other tests of this one may have started threads of OpenMP, which do not survive a fork
    with ProcessPoolExecutor(1, get_context("spawn")) as new:
        new.submit(check_cases, tmp_path).result()
