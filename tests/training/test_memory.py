"""The least memory of a training: term by term, below what a real training takes, and the errors above it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import CPU, SHAPE, WITH_MEMORY, V, recipe

from bukva.base.errors import BukvaError
from bukva.config.load import read_params
from bukva.config.messages import WAY_BACK
from bukva.models.bigram import BigramConfig
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
from bukva.training import memory
from bukva.training.device import Machine
from bukva.training.memory import check_memory, least_bytes, memory_bytes

N = count_parameters(SHAPE)
CHARS = 3 * SHAPE.block_size
ACTIVATIONS = 2 * 16 * 8  # bytes per character of one block of 8 channels


def test_a_training_holds_weights_by_copies_and_a_batch_by_activations_logits_and_windows():
    assert least_bytes(SHAPE, recipe(optimizer="adamw")) == (4 * N * (4 + 2), CHARS * (ACTIVATIONS + 8 * V + 16))
    assert least_bytes(SHAPE, recipe(optimizer="muon"))[0] == 4 * N * (3 + 2)
    assert least_bytes(SHAPE, recipe(), on_gpu=True) == (4 * N * 4, CHARS * (ACTIVATIONS + 8 * V))
    assert least_bytes(BigramConfig(V, 5), recipe())[1] == CHARS * (8 * V + 16)  # it has no activations
    assert WITH_MEMORY.activations_per_char == SHAPE.activations_per_char + 4 * V * 2  # numbers of both experts


@pytest.mark.parametrize("changes", [{"micro_batches": 3}, {"processes": 3}])
def test_micro_batches_and_processes_divide_what_is_computed_at_once(changes):
    assert least_bytes(SHAPE, recipe(**changes))[1] == CHARS // 3 * (ACTIVATIONS + 8 * V) + CHARS * 16


def test_a_training_that_fits_passes():
    assert memory_bytes(CPU.device) > 2**28
    check_memory(SHAPE, recipe(), CPU)
    check_memory(SHAPE, recipe(), Machine(torch.device("cpu"), torch.bfloat16))
    check_memory(BigramConfig(60, 8), read_params().train_bigram, CPU)


# ---- too large for this machine


def shape(**values):
    return GPTConfig(vocab_size=60, **(read_params().model.model_dump() | values))


@pytest.mark.parametrize(
    ("config", "changes", "advice"),
    [
        (shape(n_embd=2**24), {}, "use a smaller model, or a text with fewer characters."),
        (shape(), {"batch_size": 10**12}, "use a smaller batch_size or block_size, or more micro_batches."),
        (shape(), {"batch_size": 10**12, "micro_batches": 10**12}, "use a smaller batch_size"),
        (BigramConfig(2**20, 8), {}, "a text with fewer characters"),
    ],
    ids=["weights", "batch", "windows", "vocabulary"],
)
def test_a_training_that_exceeds_the_memory_is_rejected_before_anything_is_allocated(config, changes, advice):
    words = r"^params\.yaml: training [\d,]+ parameters .* needs at least [\d,.]+ GB of memory; this machine has"
    with pytest.raises(BukvaError, match=words) as error:
        check_memory(config, recipe(**changes), CPU)
    assert advice in str(error.value)
    assert str(error.value).endswith(WAY_BACK)


def test_processes_of_one_machine_share_its_memory(monkeypatch):
    needed = sum(least_bytes(SHAPE, recipe()))
    monkeypatch.setattr(memory, "memory_bytes", lambda _: 2 * needed)
    check_memory(SHAPE, recipe(), CPU, local_size=2)
    with pytest.raises(BukvaError):
        check_memory(SHAPE, recipe(), CPU, local_size=3)


def test_counting_takes_memory_in_every_process(monkeypatch):
    n_train = 2**30 // 24  # whose counts take a gigabyte
    monkeypatch.setattr(memory, "memory_bytes", lambda _: 24 * n_train * 3)
    check_memory(WITH_MEMORY, recipe(), CPU, 3, n_train=n_train)
    check_memory(SHAPE, recipe(), CPU, 3, n_train=n_train + 1)  # which counts nothing
    with pytest.raises(BukvaError) as error:
        check_memory(WITH_MEMORY, recipe(), CPU, 3, n_train=n_train + 1)
    assert str(error.value) == (
        f"params.yaml: counting the n-grams of 44,739,243 characters needs at least 3.0 GB of memory; this "
        f"machine has 3.0; use model.ngrams none, or a shorter text.\n{WAY_BACK}"
    )


MEASURE = r"""
import re, numpy, torch
from pathlib import Path
from tiny import CPU, recipe
from bukva.config.load import read_params
from bukva.models.gpt import GPTConfig
from bukva.tokenizers.char import CharTokenizer
from bukva.training.memory import least_bytes
from bukva.training.run import Task, run_training, start
torch.set_num_threads(1)
# not ru_maxrss, which begins with the peak of the process that forked this one
peak = lambda: 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
ids = numpy.arange(2000, dtype=numpy.uint8) % 60
tokenizer = CharTokenizer([chr(0x410 + n) for n in range(60)])
small = read_params().model.model_dump() | {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 16}
for n_embd, training in ((8, recipe()), (1024, recipe(batch_size=64, n_steps=2, eval_every=2, optimizer="muon"))):
    config = GPTConfig(vocab_size=60, **(small | {"n_embd": n_embd}))
    task = Task.of(config, {"train": ids, "val": ids[:100]}, tokenizer, training, CPU)
    before, state = peak(), start(task)
    initial = state.weights()
    run_training(task, state)
print((peak() - before) / sum(least_bytes(config, training)))
"""


@pytest.mark.nightly
def test_the_bound_is_below_what_a_training_takes():
    """A training of 12 million parameters, measured in a process of its own."""
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", MEASURE], env=env, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert 1 < float(done.stdout) < 4
