"""`prepare` chooses device, precision and threads, and small models generate on the CPU."""

import dataclasses

import numpy as np
import pytest
import torch
from tiny import CPU, SHAPE, WITH_MEMORY, task

from bukva.backends import device as module
from bukva.backends import generation_copy
from bukva.backends.device import Machine, generation_device, prepare
from bukva.core.params import read_params
from bukva.models.registry import build
from bukva.training.run import start
from tests.support.imports import SHIPPED


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def compute(**changes):
    return read_params(SHIPPED).compute.model_copy(update={"device": "cpu"} | changes)


@pytest.mark.parametrize(("precision", "native", "expected"), [
    ("fp32", True, torch.float32),
    ("bf16", False, torch.bfloat16),
    ("auto", True, torch.bfloat16),
    ("auto", False, torch.float32),
])  # fmt: skip
def test_auto_chooses_bf16_where_the_hardware_multiplies_it(monkeypatch, precision, native, expected):
    monkeypatch.setattr(module, "_supports_bf16", lambda _: native)
    assert prepare(compute(precision=precision)) == Machine(torch.device("cpu"), expected)


def test_threads_are_as_given_or_the_processes_share_the_cores(monkeypatch):
    monkeypatch.setattr(module, "n_cores", lambda: 6)
    for given, local_size, threads in ((2, 1, 2), (0, 1, 6), (0, 3, 2), (0, 7, 1)):
        prepare(compute(threads=given), local_rank=0, local_size=local_size)
        assert torch.get_num_threads() == threads


def test_on_a_gpu_algorithms_are_deterministic_and_new_memory_is_left_as_it_is(monkeypatch):
    calls = {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: calls.update(device=device))
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *mode: calls.update(deterministic=mode))
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda mode: calls.update(cudnn=mode))
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    assert prepare(compute(device="auto", precision="fp32")) == Machine(torch.device("cuda:0"), torch.float32)
    assert calls == {"device": torch.device("cuda:0"), "deterministic": (True,), "cudnn": False}
    calls.clear()
    prepare(compute(device="auto", precision="fp32"), is_deterministic=False)
    assert calls == {"device": torch.device("cuda:0")}
    assert not torch.utils.deterministic.fill_uninitialized_memory


def test_numerics_name_what_decides_the_order_of_a_sum(monkeypatch):
    known = {"cpu_name": "Maker Model 7", "avx512_bf16": True, "amx_bf16": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    torch.set_num_threads(3)
    numerics = Machine(torch.device("cpu"), torch.bfloat16).numerics()
    assert numerics.pop("torch") + numerics.pop("numpy") == torch.__version__.partition("+")[0] + np.__version__
    assert numerics == {"processor": "Maker AVX512 avx512_bf16 amx_bf16", "precision": "bfloat16", "threads": "3"}


def test_on_a_gpu_small_models_generate_on_the_cpu(monkeypatch):
    model, gpu = build(SHAPE), Machine(torch.device("cuda:0"), torch.bfloat16)
    assert generation_device(model, gpu) == generation_device(model, CPU) == torch.device("cpu")
    assert generation_device(model, dataclasses.replace(gpu, is_plain=True)) == gpu.device
    monkeypatch.setattr(module, "MOST_ON_CPU", sum(parameter.numel() for parameter in model.parameters()) - 1)
    assert generation_device(model, gpu) == gpu.device


def test_the_copy_that_generates_has_the_weights_and_the_counts_of_the_model_and_changes_nothing(monkeypatch):
    model = start(task(WITH_MEMORY)).model.train()
    assert generation_copy(model, CPU) is model
    copied = generation_copy(model, dataclasses.replace(CPU, device=torch.device("cuda:0")))
    assert copied is not model
    assert copied.ngrams is model.ngrams
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.equal(copied.eval()(ids), model.eval()(ids))
        copied.wte.weight += 1
        assert not torch.equal(copied(ids), model(ids))
