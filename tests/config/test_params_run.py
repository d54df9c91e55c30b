"""Whatever params.yaml says, the stages that read it end well or say in a sentence why not: no traceback and no hang.

Values are tried by a program, which is this file run by itself: it has imported torch once and forks a process for each
case, in a copy of one small project, so that a case that hangs or dies is seen and spoils no other.
"""

import contextlib
import copy
import importlib
import io
import itertools
import json
import math
import os
import queue
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from bukva.pipeline.dvc import paths
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS, parse_params
from bukva.config.messages import WAY_BACK
from bukva.models.bigram import BigramConfig
from bukva.models.gpt import GPTConfig
from bukva.training import device as compute
from bukva.training.device import Machine, prepare
from bukva.training.memory import check_memory, least_bytes
from bukva.training.parallel import check_processes
from chaos.project import SMALL

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60  # that a case may take: the slowest takes 3, and others may need the cores
MEMORY = 16 << 30  # bytes, lest a case that fails takes the machine with it
RAW = YAML(typ="safe").load((ROOT / PARAMS).read_text(encoding="utf-8"))
RAW |= {section: RAW[section] | values for section, values in SMALL.items()}
RAW["download"]["path"], RAW["compute"]["device"] = "book.txt", "cpu"

# A stage and its arguments, by the names that dvc.yaml gives to paths; publish has none.
STAGES = {
    name.replace("-", "_"): found
    for name, stage in YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"].items()
    if (found := re.findall(r"\$\{path\.(\w+)\}", stage["cmd"]))
}
# The stages that a section can reach. Evaluate takes ten times as long as all others together, and comes only where it
# reads the section itself; what of other sections it could stumble over is tried below, beside a key of its own.
REACHED = {
    "download": ["download", "clean", "tokenize", "split", "train_bigram", "train_gpt", "sample"],
    "clean": ["clean", "tokenize", "split", "train_bigram", "train_gpt", "sample"],
    "tokenize": ["tokenize", "split", "train_bigram", "train_gpt", "sample"],
    "split": ["tokenize", "split", "train_bigram", "train_gpt", "sample"],
    "model": ["split", "train_gpt", "sample"],
    "compute": ["train_bigram", "train_gpt", "sample"],
    "train_bigram": ["train_bigram"],
    "train_gpt": ["train_gpt"],
    "evaluate": ["tokenize", "evaluate"],
    "sample": ["tokenize", "sample"],
}

# ---- values by what a key is

OTHER_TYPES = [None, "", "8", " ", "²", [], [1], {}, {"a": 1}, b"8", math.nan, math.inf, -math.inf]
INTEGERS = [1, 2, 3, 16, 20, 0, -1, -(10**12), 2**31, 2**53 + 1, 2**63, 10**30, 1 << 20_000, True, 1.0, 1e3, "1e3"]
FRACTIONS = [
    *[0.0, 5e-324, 1e-45, 1e-7, 0.3, 0.5, 0.9999999, 0.9999999999999999, 1.0, 1, 0],
    *[1.0000000000000002, -5e-324, -0.5, 2.0, 1e308, 10**400, True, "0.5", "0,5"],
]
RATES = [5e-324, 1e-9, 1e-3, 1, 30.0, 1e6, 1e38, 1e40, 1.7e308, 0.0, -0.0, -1e-3, 10**400, "1e-3", False]
SEEDS = [0, 1, 1337, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -1, 10**30, True, 1.0]
SWITCHES = [True, False, 0, 1, -1, 0.0, "true", "no", "True", 2]
CHOICES = ["adamw", "muon", "Muon", "adam", "", "\u00adadamw", "a" * 10_000, 0, True, "rotary", "none", "notes"]
TEXTS = [
    *["\n", "а", "Было это", "Было\r\nэто", "б" * 16, "б" * 17, "\0", "\u202e", "`|#", "Ё" * 100_000, "e\u0301"],
    *["\U0001f600", "\ud800", "https://me:secret@host/?key=secret", 8, True],
]
LISTS = [
    *[["\n"], ["а", "б"], ["а"] * 20, ["а" * 5000], ["\0"], ["\U0001f600"], ["`|#\r\n"]],
    *[[], [""], [None], [1], ["а", []], "а", ["\ud800"], [["а"]]],
]
PATHS = [
    *["book.txt", ".", "./book.txt", "nowhere", "dvc.yaml", "book.txt/", "ё/ж.txt", "a" * 200, "a\0b", "empty.txt"],
    *["", "\ud800", 8, ["book.txt"], "latin.txt", "\n", "-"],
]
ADDRESSES = [
    *[
        "",
        "http://127.0.0.1:1/a.txt",
        "https://127.0.0.1:1",
        "http://127.0.0.1:1/?key=secret",
        "http://.x/",
        "http://*/",
    ],
    *["http://" + "ж" * 300, "http://[::1", "http://[v1.x]/", "http://127.0.0.1:99999/", "http://127.0.0.1:b/"],
    *["http://", "http://a b/", "http://127.0.0.1:1/\n", "http://℀.com/", "ftp://127.0.0.1/a", "file:///etc/passwd"],
    *["http://" + "a" * 10_000, "http://127.0.0.1:1/" + "a" * 2000, "http://127.0.0.1:1/\ud800", "//127.0.0.1/a"],
    *["https://me:secret@127.0.0.1:1/a", "https://me:se?cret/@127.0.0.1:1/a", "me:secret@host/a"],
]
DIGESTS = ["", "a" * 64, "0" * 64, "A" * 64, "a" * 63, "a" * 65, "g" * 64, "a" * 64 + "\n", 0, "а" * 64, " " * 64]

KINDS = [
    (INTEGERS, {
        "model": ["n_layer", "n_head", "n_embd", "block_size"], "compute": ["threads"],
        "train_bigram": ["block_size", "n_steps", "batch_size", "micro_batches", "warmup_steps", "eval_every",
                         "patience"],
        "train_gpt": ["n_steps", "batch_size", "micro_batches", "processes", "warmup_steps", "eval_every", "patience"],
        "evaluate": ["short_context", "context_chars", "attention_windows", "leak_steps"],
        "sample": ["n_chars", "top_k"],
    }),
    (FRACTIONS, {
        "split": ["train", "val", "test"], "model": ["dropout"], "train_bigram": ["decay_to", "beta2"],
        "train_gpt": ["decay_to", "beta2"], "sample": ["top_p"],
    }),
    (RATES, {
        "train_bigram": ["learning_rate", "weight_decay", "grad_clip"],
        "train_gpt": ["learning_rate", "weight_decay", "grad_clip"], "sample": ["temperature"],
    }),
    (SEEDS, {"train_bigram": ["seed"], "train_gpt": ["seed"], "sample": ["seed"]}),
    (SWITCHES, {"model": ["qk_norm", "bias", "tie_weights"]}),
    (CHOICES, {
        "download": ["corpus"], "clean": ["rules"], "tokenize": ["kind", "vocabulary"], "split": ["strategy"],
        "model": ["positions", "norm", "activation", "proj_init"], "compute": ["device", "precision"],
        "train_bigram": ["optimizer", "order"], "train_gpt": ["optimizer", "order"], "sample": ["unknown"],
    }),
    (TEXTS, {"evaluate": ["attention_sentence"]}),
    (LISTS, {"sample": ["prompts"]}),
    (PATHS, {"download": ["path"]}),
    (ADDRESSES, {"download": ["url"]}),
    (DIGESTS, {"download": ["sha256"]}),
]  # fmt: skip
# The words that a choice knows; a corpus from the network is not tried.
WORDS = {
    "download.corpus": ["sample", "local", "url"],
    "clean.rules": ["notes", "none"],
    "tokenize.kind": ["char"],
    "tokenize.vocabulary": ["all", "train"],
    "split.strategy": ["tail", "contiguous"],
    "model.positions": ["learned", "rotary", "none"],
    "model.norm": ["layernorm", "rmsnorm"],
    "model.activation": ["gelu", "relu", "relu2"],
    "model.proj_init": ["scaled", "zero"],
    "compute.device": ["auto", "cpu", "cuda"],
    "compute.precision": ["auto", "fp32", "bf16"],
    "train_bigram.order": ["epoch", "random"],
    "train_gpt.order": ["epoch", "random"],
    "sample.unknown": ["error", "drop", "replace"],
}
VALUES = {
    f"{section}.{key}": [*values, *OTHER_TYPES, *WORDS.get(f"{section}.{key}", [])]
    for values, keys in KINDS
    for section, names in keys.items()
    for key in names
}
# What more of is right, and takes longer or more memory than a test has; processes are tried in tests/dvc.
MOST = {
    "model.n_layer": 3, "model.n_embd": 20, "compute.threads": 20, "train_gpt.processes": 1,
    "train_bigram.n_steps": 20, "train_bigram.batch_size": 32, "train_bigram.micro_batches": 32,
    "train_gpt.n_steps": 20, "train_gpt.batch_size": 32, "train_gpt.micro_batches": 32,
    "evaluate.attention_windows": 2, "evaluate.leak_steps": 2, "evaluate.context_chars": 2,
    "evaluate.short_context": 2, "sample.n_chars": 20,
}  # fmt: skip

# Two keys that only go together, and what failed once.
MORE = [
    {"split.train": 0.95, "split.val": 0.05, "split.test": 0.0},
    {"split.train": 0.95, "split.val": 0.05, "split.test": 0},
    {"split.train": 0.01, "split.val": 0.98, "split.test": 0.01},
    {"split.train": 0.5, "split.val": 0.5, "split.test": 5e-324},
    {"split.train": 5e-324, "split.val": 0.5, "split.test": 0.5},
    {"split.train": 0.9999999999999999, "split.val": 5e-324, "split.test": 0.0},
    {"model.block_size": 2, "evaluate.short_context": 1},
    {"model.block_size": 3, "evaluate.short_context": 3},
    {"model.positions": "learned", "model.n_head": 8},
    {"model.n_head": 2, "model.n_embd": 20},
    {"train_gpt.n_steps": 1, "train_gpt.eval_every": 1, "train_gpt.warmup_steps": 1},
    {"train_gpt.optimizer": "adamw", "train_gpt.learning_rate": 1.7e308},
    {"train_gpt.learning_rate": 1.7e308, "train_gpt.weight_decay": 1.7e308},
    {"compute.precision": "bf16", "model.dropout": 0.5},
    {"sample.temperature": 0, "sample.top_k": 10**12},
    {"sample.temperature": 5e-324, "sample.top_p": 0.5},
    {"sample.prompts": ["Мой \U0001f600"], "sample.unknown": "replace"},
    {"sample.prompts": ["а\U0001f600"], "sample.unknown": "drop"},
    {"split.train": 0.9, "split.val": 0.1, "split.test": 0, "evaluate.leak_steps": 2},
    {"split.train": 0.01, "split.val": 0.98, "split.test": 0.01, "evaluate.leak_steps": 2},
    {"model.n_layer": 3, "model.n_head": 8, "model.positions": "none", "evaluate.leak_steps": 2},
    {"model.positions": "learned", "model.tie_weights": True, "model.bias": True, "evaluate.leak_steps": 2},
    {"model.dropout": 0.9999999999999999, "model.qk_norm": False, "evaluate.leak_steps": 1},
    {"model.block_size": 146, "train_bigram.block_size": 147, "evaluate.short_context": 146},
    {"evaluate.context_chars": 10**12, "evaluate.short_context": 16},
    {"download.corpus": "local"},
]
MORE += [
    {"download.corpus": "url", "download.url": url, "download.sha256": "a" * 64}
    for url in ADDRESSES
    if url.startswith("http://")  # the others are refused, like many of these
]


def with_changes(changes):
    raw = copy.deepcopy(RAW)
    for name, value in changes.items():
        section, key = name.split(".")
        raw[section][key] = value
    return raw


def verdict(changes):
    """Empty where the parameters are valid, else the sentence."""
    try:
        parse_params(with_changes(changes), "params.yaml")
    except BukvaError as error:
        return str(error)
    return ""


def is_short(changes):
    return all(name not in MOST or value <= MOST[name] for name, value in changes.items())


SINGLES = [{key: value} for key, values in VALUES.items() for value in values]
# What failed once, and how.
FAILED_ONCE = [
    ({"sample.top_p": 5e-324}, "sampling.keep_likeliest: 0 in float32, so that not even the likeliest stays"),
    ({"download.path": "~nobody-of-this-name/a"}, "files.resolve: expanduser raises RuntimeError"),
    ({"download.path": "a" * 5000}, "corpora._local: exists() raises OSError"),
    ({"evaluate.attention_windows": 10**9}, "worth_of_lengths: a number for each character asked for, of a short text"),
]
UNREAD = {"download.url", "download.sha256"}  # without corpus url
TO_RUN = [
    changes
    for changes in [*SINGLES, *MORE]
    if changes.keys() - UNREAD
    and not verdict(changes)
    and is_short(changes)
    and changes not in [case for case, _ in FAILED_ONCE]
]


# ---- the program that tries them


def attempt(changes, stages):
    """Run stages in the current folder: "" when all end well, else what the user is told, or the traceback."""
    text = json.dumps(with_changes(changes), ensure_ascii=False)  # which is YAML, and keeps every number
    PARAMS.write_text(text, encoding="utf-8")
    named = {name: Path(path) for name, path in paths().items()}
    try:
        for stage in stages:
            importlib.import_module(f"stages.{stage}").main(*(named[name] for name in STAGES[stage]))
    except BukvaError as error:
        return {"told": str(error)}
    except BaseException:
        return {"failed": traceback.format_exc()}
    return {}


def forked(changes, stages, template):
    """The same in a process and a copy of a project of its own; hangs and deaths are failures too."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as answer:
        shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
        child = os.fork()
        if not child:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                os.chdir(folder)
                os.environ["DVC_ROOT"] = folder
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                json.dump(attempt(changes, stages), answer)
            answer.flush()
            os._exit(0)
        ends_at, done = time.monotonic() + SECONDS, 0
        while not done and time.monotonic() < ends_at:
            time.sleep(0.01)
            done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return {"failed": f"hangs: not done in {SECONDS} s"}
        answer.seek(0)
        text = answer.read()
        return json.loads(text) if text and not status else {"failed": f"died with status {status}"}


def stages_of(changes):
    reached = set(itertools.chain(*(REACHED[name.split(".")[0]] for name in changes)))
    return [stage for stage in STAGES if stage in reached]


def serve(project):
    """Cases come as lines of JSON, answers go."""
    from bukva.corpus import fetching

    torch.set_num_threads(1)
    fetching.BACKOFF_SECONDS = 0
    for stage in STAGES:
        importlib.import_module(f"stages.{stage}")
    importlib.import_module("matplotlib.pyplot")
    importlib.import_module("torch._dynamo")  # the optimizers import it when they are made
    sys.executable = "/nowhere/python"  # so that nothing starts beside a training
    os.chdir(project)
    for line in sys.stdin:
        changes = json.loads(line)
        print(json.dumps(forked(changes, stages_of(changes), project)), flush=True)


# ---- the tests


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project after all stages, with a text of 3,000 characters."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("src", "stages", "dvc.yaml", "numerics.lock"):
        (folder / name).symlink_to(ROOT / name)
    book = (ROOT / "data/sample/prose/skazki/sem_par_laptey.txt").read_text(encoding="utf-8")[:3000]
    (folder / "book.txt").write_text(book, encoding="utf-8")
    (folder / "empty.txt").touch()
    (folder / "latin.txt").write_bytes("Café".encode("latin-1"))
    return folder


@pytest.fixture(scope="module")
def ask(project):
    """Ask one of two programs what becomes of a case; the first one makes the project."""
    foreign = ("DVC_", "MLFLOW_", "BUKVA_", "GIT_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    env |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    env |= {"DVC_ROOT": str(project), "GIT_CEILING_DIRECTORIES": str(project.parent)}
    program = [sys.executable, __file__, str(project)]
    made = subprocess.run([*program, "make"], env=env, capture_output=True, text=True, cwd=project)
    assert json.loads(made.stdout.splitlines()[-1]) == {}, made.stderr
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        asked = [stack.enter_context(subprocess.Popen(program, env=env, **pipes)) for _ in range(2)]
        idle = queue.SimpleQueue()
        for one in asked:
            idle.put(one)

        def answer(changes):
            one = idle.get()
            print(json.dumps(changes), file=one.stdin, flush=True)
            found = json.loads(one.stdout.readline())
            idle.put(one)
            return found

        yield answer
        for one in asked:
            one.stdin.close()


def wrong(changes, answer):
    """What is wrong with an answer, or nothing."""
    if "failed" in answer:
        return f"{changes}: {answer['failed']}"
    if not is_a_sentence(answer.get("told", ".")):
        return f"{changes}: no sentence: {answer['told']!r}"
    return ""


def is_a_sentence(said):
    said = said.removesuffix(WAY_BACK).rstrip("\n")
    return said.isprintable() and len(said) < 2500 and "secret" not in said


def test_every_key_is_tried_with_ten_values_and_more():
    assert VALUES.keys() == {f"{section}.{key}" for section, keys in RAW.items() for key in keys}
    assert all(len(values) >= 20 for values in VALUES.values())


@pytest.mark.parametrize("key", VALUES)
def test_every_value_is_right_or_refused_in_a_sentence(key):
    for value in VALUES[key]:
        said = verdict({key: value})
        if said:
            assert key.split(".")[0] in said
            assert said.endswith(WAY_BACK)
            assert is_a_sentence(said), said


@pytest.mark.slow
def test_every_right_value_ends_well_or_in_a_sentence(ask):
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, TO_RUN))
    assert not list(filter(None, map(wrong, TO_RUN, answers)))
    ended_well = [changes for changes, answer in zip(TO_RUN, answers, strict=True) if not answer]
    assert len(ended_well) >= 180, len(ended_well)
    assert {key for changes in ended_well for key in changes} >= VALUES.keys() - UNREAD


@pytest.mark.slow
@pytest.mark.parametrize("changes", [changes for changes, _ in FAILED_ONCE], ids=[how for _, how in FAILED_ONCE])
def test_what_failed_once_ends_well_or_in_a_sentence(ask, changes):
    assert not wrong(changes, ask(changes))


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(st.sampled_from([case for case in TO_RUN if "evaluate" not in stages_of(case)]), min_size=2, max_size=3)
)
def test_right_values_together_end_well_or_in_a_sentence(ask, several):
    changes = {key: value for one in several for key, value in one.items()}
    if not verdict(changes):
        assert not wrong(changes, ask(changes))
    else:
        assert is_a_sentence(verdict(changes).replace("\n", " "))


# ---- what this machine cannot hold


CPU = Machine(torch.device("cpu"), torch.float32)


def shape(**values):
    return GPTConfig(vocab_size=60, **(RAW["model"] | values))


def recipe(**values):
    return parse_params(RAW | {"train_gpt": RAW["train_gpt"] | values}, "params.yaml").train_gpt


@pytest.mark.parametrize(
    ("config", "changes", "would"),
    [
        ({"n_embd": 2**24}, {}, "a smaller n_embd or n_layer would do."),
        ({"n_embd": 2**16, "n_layer": 1000}, {"optimizer": "adamw"}, "a smaller n_embd or n_layer would do."),
        ({}, {"batch_size": 10**12}, "a smaller batch_size or block_size, or more micro_batches, would do."),
        ({}, {"batch_size": 10**12, "micro_batches": 10**12}, "a smaller batch_size"),
        ({"block_size": 2**24}, {"batch_size": 2**20}, "a smaller batch_size or block_size"),
    ],
)
def test_a_training_that_no_memory_holds_is_refused_before_anything_is_made(config, changes, would):
    with pytest.raises(BukvaError, match=r"^params\.yaml: to train [\d,]+ parameters .* GB of memory or more") as error:
        check_memory(shape(**config), recipe(**changes), CPU)
    assert would in str(error.value)
    assert str(error.value).endswith(WAY_BACK)


def test_a_bigram_is_too_large_by_its_batch_or_its_alphabet():
    training = parse_params(RAW, "params.yaml").train_bigram
    check_memory(BigramConfig(vocab_size=60, block_size=8), training, CPU)
    with pytest.raises(BukvaError, match="a smaller batch_size"):
        check_memory(BigramConfig(vocab_size=60, block_size=8), training.model_copy(update={"batch_size": 10**12}), CPU)
    with pytest.raises(BukvaError, match="fewer characters in the text would do"):
        check_memory(BigramConfig(vocab_size=2**20, block_size=8), training, CPU)


def test_processes_of_one_machine_share_its_memory(monkeypatch):
    needed = sum(least_bytes(shape(), recipe()))
    monkeypatch.setattr(compute, "memory_bytes", lambda _: 2 * needed)
    check_memory(shape(), recipe(), CPU, local_size=2)
    with pytest.raises(BukvaError):
        check_memory(shape(), recipe(), CPU, local_size=3)


@pytest.mark.slow
def test_the_bound_is_below_what_a_training_takes():
    """A training of 12 million parameters, measured in a process of its own."""
    program = """
import re, numpy, torch
from pathlib import Path
from test_params_run import CPU, recipe, shape
from bukva.training.device import least_bytes
from bukva.training.fit import fit, start
torch.set_num_threads(1)
# not ru_maxrss, which begins with the peak of the process that forked this one
used = lambda: 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
ids = numpy.arange(2000, dtype=numpy.uint8) % 60
for config, training in ((shape(), recipe()), (shape(n_embd=1024), recipe(batch_size=64, n_steps=2, eval_every=2))):
    before, state = used(), start(config, training, CPU)
    initial = state.weights()
    list(fit(state, {"train": ids, "val": ids[:100]}, training, CPU))
print((used() - before) / sum(least_bytes(config, training)))
"""
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert 1 < float(done.stdout) < 4


def test_more_processes_than_cores_can_feed_are_refused(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    check_processes(8)
    with pytest.raises(BukvaError, match=r"train_gpt.processes: 9 on this machine, which has 2 cores; 8 or fewer"):
        check_processes(9)


def test_a_gpu_is_wanted_for_each_process(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    section = parse_params(with_changes({"compute.device": "auto"}), "params.yaml").compute
    with pytest.raises(BukvaError, match=r"processes: 2 on this machine, which has 1 usable GPUs"):
        prepare(section, local_rank=1, local_size=2)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if "make" in sys.argv:
        sys.executable = "/nowhere/python"
        with contextlib.redirect_stdout(sys.stderr):
            answer = attempt({}, STAGES)
        print(json.dumps(answer))
    else:
        serve(folder)
