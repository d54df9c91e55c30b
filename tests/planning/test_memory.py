"""The lower bound of the memory for training, term by term, and the errors if the machine has less."""

import pytest
from imports import SHIPPED
from tiny import CPU, SHAPE, WITH_MEMORY, V, recipe

from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.models.bigram import BigramConfig
from bukva.models.registry import count_parameters
from bukva.planning import memory
from bukva.planning.memory import check_counting, check_memory, least_bytes, memory_bytes

N = count_parameters(SHAPE)
CHARS = 3 * SHAPE.block_size
ACTIVATIONS = 2 * 16 * 8  # bytes per character of one block of 8 channels


def test_a_training_holds_weights_by_copies_and_a_batch_by_activations_logits_and_windows():
    batch = CHARS * (ACTIVATIONS + 8 * V)
    assert least_bytes(SHAPE, recipe(optimizer="adamw")) == 4 * N * (4 + 2) + batch + CHARS * 16
    assert least_bytes(SHAPE, recipe(optimizer="muon")) == 4 * N * (3 + 2) + batch + CHARS * 16
    assert least_bytes(SHAPE, recipe(optimizer="adamw"), on_gpu=True) == 4 * N * 4 + batch
    for changes in ({"micro_batches": 3}, {"processes": 3}):  # both divide the batch
        whole, divided = (least_bytes(SHAPE, recipe(**each)) for each in ({}, changes))
        assert whole - divided == batch - batch // 3
    assert BigramConfig(V, 5).activations_per_id == 0
    assert (
        WITH_MEMORY.activations_per_id == SHAPE.activations_per_id + 4 * V * 2
    )  # two experts, four numbers per symbol


def test_a_training_must_fit_and_processes_of_one_machine_share_its_memory(monkeypatch):
    assert memory_bytes(CPU.device) > 2**28
    check_memory(BigramConfig(60, 8), read_params(SHIPPED).train_bigram, CPU)
    needed = least_bytes(SHAPE, recipe())
    monkeypatch.setattr(memory, "memory_bytes", lambda _: 2 * needed)
    check_memory(SHAPE, recipe(), CPU, local_size=2)
    with pytest.raises(BukvaError, match=r"^params\.yaml: training [\d,]+ parameters .* needs at least [\d,.]+ GiB"):
        check_memory(SHAPE, recipe(), CPU, local_size=3)


def test_counting_takes_memory(monkeypatch):
    n_train = 2**30 // 24  # counting so many ids takes one gigabyte
    monkeypatch.setattr(memory, "memory_bytes", lambda _: 24 * n_train)
    check_counting(n_train)
    with pytest.raises(BukvaError) as error:
        check_counting(n_train + 1)
    assert str(error.value) == (
        "params.yaml: counting the n-grams of 44,739,243 characters needs at least 1.0 GiB of memory, but only "
        "1.0 GiB are available. Set `baselines.max_order` to 0, or use a shorter text."
    )
