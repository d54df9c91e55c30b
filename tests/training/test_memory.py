"""The least memory of a training, term by term (whether it bounds a real training: tests/config/test_params_run.py)."""

import pytest
import torch
from tiny import CPU, SHAPE, V, recipe

from bukva.models.bigram import BigramConfig
from bukva.models.registry import count_parameters
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
