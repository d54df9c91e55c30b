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


@pytest.mark.parametrize(("optimizer", "copies"), [("adamw", 4), ("muon", 3)])
def test_the_weights_are_held_by_the_optimizer_and_saved_twice(optimizer, copies):
    assert least_bytes(SHAPE, recipe(optimizer=optimizer))[0] == 4 * N * (copies + 2)


def test_on_a_gpu_neither_saved_weights_nor_windows_count():
    weights, batch = least_bytes(SHAPE, recipe(), on_gpu=True)
    assert weights == 4 * N * 4
    assert batch == CHARS * (2 * SHAPE.activations_per_char + 8 * V)


def test_a_batch_is_activations_logits_and_windows():
    assert least_bytes(SHAPE, recipe())[1] == CHARS * (2 * 16 * 8 + 8 * V + 16)


def test_a_bigram_has_no_activations():
    assert least_bytes(BigramConfig(V, 5), recipe())[1] == CHARS * (8 * V + 16)


@pytest.mark.parametrize("changes", [{"micro_batches": 3}, {"processes": 3}])
def test_micro_batches_and_processes_divide_what_is_computed_at_once(changes):
    assert least_bytes(SHAPE, recipe(**changes))[1] == CHARS // 3 * (2 * 16 * 8 + 8 * V) + CHARS * 16


def test_a_training_that_fits_passes():
    assert memory_bytes(CPU.device) > 2**28
    check_memory(SHAPE, recipe(), CPU)
    check_memory(SHAPE, recipe(), Machine(torch.device("cpu"), torch.bfloat16))


# ---- too large for this machine


def shape(**values):
    return GPTConfig(vocab_size=60, **(read_params().model.model_dump() | values))


@pytest.mark.parametrize(
    ("config", "changes", "advice"),
    [
        ({"n_embd": 2**24}, {}, "use a smaller model"),
        ({"n_embd": 2**16, "n_layer": 1000}, {"optimizer": "adamw"}, "use a smaller model"),
        ({}, {"batch_size": 10**12}, "use a smaller batch_size or block_size, or more micro_batches."),
        ({}, {"batch_size": 10**12, "micro_batches": 10**12}, "use a smaller batch_size"),
        ({"block_size": 2**24}, {"batch_size": 2**20}, "use a smaller batch_size or block_size"),
    ],
)
def test_a_training_that_exceeds_the_memory_is_rejected_before_anything_is_allocated(config, changes, advice):
    words = r"^params\.yaml: training [\d,]+ parameters .* needs at least [\d,.]+ GB of memory; this machine has"
    with pytest.raises(BukvaError, match=words) as error:
        check_memory(shape(**config), recipe(**changes), CPU)
    assert advice in str(error.value)
    assert str(error.value).endswith(WAY_BACK)


def test_a_bigram_may_exceed_the_memory_by_its_batch_or_its_vocabulary():
    training = read_params().train_bigram
    check_memory(BigramConfig(60, 8), training, CPU)
    with pytest.raises(BukvaError, match="use a smaller batch_size"):
        check_memory(BigramConfig(60, 8), training.model_copy(update={"batch_size": 10**12}), CPU)
    with pytest.raises(BukvaError, match="a text with fewer characters"):
        check_memory(BigramConfig(2**20, 8), training, CPU)


def test_processes_of_one_machine_share_its_memory(monkeypatch):
    needed = sum(least_bytes(SHAPE, recipe()))
    monkeypatch.setattr(memory, "memory_bytes", lambda _: 2 * needed)
    check_memory(SHAPE, recipe(), CPU, local_size=2)
    with pytest.raises(BukvaError):
        check_memory(SHAPE, recipe(), CPU, local_size=3)


@pytest.mark.parametrize("n_processes", [1, 3])
def test_counting_takes_memory_in_every_process(monkeypatch, n_processes):
    gigabytes = 2**30 / 24  # of ids
    n_train = int(gigabytes)
    monkeypatch.setattr(memory, "memory_bytes", lambda _: 24 * n_train * n_processes)
    check_memory(WITH_MEMORY, recipe(), CPU, n_processes, n_train=n_train)
    check_memory(SHAPE, recipe(), CPU, n_processes, n_train=n_train + 1)  # which counts nothing
    with pytest.raises(BukvaError) as error:
        check_memory(WITH_MEMORY, recipe(), CPU, n_processes, n_train=n_train + 1)
    assert str(error.value) == (
        f"params.yaml: counting the n-grams of 44,739,243 characters needs at least {n_processes}.0 GB of memory; this "
        f"machine has {n_processes}.0; use model.ngrams none, or a shorter text.\n{WAY_BACK}"
    )


def test_a_memory_keeps_numbers_of_every_expert():
    assert WITH_MEMORY.activations_per_char == SHAPE.activations_per_char + 4 * V * 2


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


@pytest.mark.slow
def test_the_bound_is_below_what_a_training_takes():
    """A training of 12 million parameters, measured in a process of its own."""
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", MEASURE], env=env, capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert 1 < float(done.stdout) < 4
