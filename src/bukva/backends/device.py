"""Choose the device, the precision and the number of threads for computing models."""

import os
from dataclasses import dataclass

import numpy as np
import torch

from bukva.core.errors import BukvaError
from bukva.core.machine import keep_freed_memory, n_cores
from bukva.core.schema import Compute
from bukva.core.words import count
from bukva.models.base import LanguageModel

MOST_ON_CPU = 25_000_000  # a model on a GPU with at most this many parameters generates text on the CPU; an estimate


@dataclass(frozen=True)
class Machine:
    """The device and the precision with which models are computed.

    dtype: type of the matrix products in training. Sampling and stage evaluate compute in float32.
    is_plain: whether models run in plain torch, without the faster code of bukva.backends (`compute.backend: plain`).
    """

    device: torch.device
    dtype: torch.dtype
    is_plain: bool = False

    def autocast(self) -> torch.autocast:
        """Return a context in which matrix products have the type `dtype`."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def numerics(self) -> dict[str, str]:
        """Return what affects how sums are rounded, by name. If it differs, the same seed may give another model."""
        return {
            "torch": torch.__version__.partition("+")[0],
            "numpy": np.__version__,
            "processor": torch.cuda.get_device_name(self.device)
            if self.device.type == "cuda"
            else _vendor_and_instructions(),
            "precision": str(self.dtype).removeprefix("torch."),
            "threads": str(torch.get_num_threads()),
        }


def prepare(compute: Compute, local_rank: int = 0, local_size: int = 1, *, is_deterministic: bool = True) -> Machine:
    """Choose a device and a precision that the hardware supports, and configure torch for the whole process.

    The `local_size` training processes on this machine share its cores, and each has the GPU of its `local_rank`. With
    `is_deterministic`, a GPU only runs deterministic algorithms. BukvaError: this machine has too few usable GPUs.
    """
    if compute.device == "cpu":
        # otherwise autograd starts a thread for each GPU, and workers cannot be forked after that
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    available = torch.cuda.is_available()
    if compute.device == "cuda" and not available:
        raise BukvaError(
            "This machine has no usable GPU, but params.yaml has `compute.device: cuda`. Set `compute.device` to "
            "`auto` or `cpu`."
        )
    if available and compute.device != "cpu" and local_rank >= torch.cuda.device_count():
        raise BukvaError(
            f"This machine has {count(torch.cuda.device_count(), 'usable GPU')}, but each of the {local_size} training "
            "processes needs its own GPU. Set `train_gpt.processes` to a smaller number, or train on the CPU with "
            "`-S compute.device=cpu`."
        )
    device = torch.device(f"cuda:{local_rank}" if available and compute.device != "cpu" else "cpu")
    torch.set_num_threads(compute.threads or max(1, n_cores() // local_size))
    keep_freed_memory()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if device.type == "cuda" and is_deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS deterministic
        torch.use_deterministic_algorithms(True)  # with warn_only, flash attention would not be deterministic
        torch.backends.cuda.enable_cudnn_sdp(False)  # torch then chooses flash, memory-efficient or math attention
        torch.utils.deterministic.fill_uninitialized_memory = False  # unneeded: all memory is written before it is read
    bf16 = compute.precision == "bf16" or (compute.precision == "auto" and _supports_bf16(device))
    return Machine(device, torch.bfloat16 if bf16 else torch.float32, compute.backend == "plain")


def generation_device(model: LanguageModel, machine: Machine) -> torch.device:
    """Return the device for text generation: the CPU for a small model on a GPU, otherwise the device of `machine`.

    On a GPU, each character needs about 35 kernel launches per transformer block, and a small model mostly waits for
    them. With `compute.backend: plain`, models stay on the GPU.
    """
    is_small = sum(parameter.numel() for parameter in model.parameters()) <= MOST_ON_CPU
    return torch.device("cpu") if is_small and not machine.is_plain else machine.device


def _vendor_and_instructions() -> str:
    """Return the CPU's vendor and its widest vector instructions. Math libraries choose their kernels by both."""
    capabilities = torch.cpu.get_capabilities()
    vendor = str(capabilities.get("cpu_name") or capabilities.get("architecture", "CPU")).partition(" ")[0]
    bf16 = [name for name in ("avx512_bf16", "amx_bf16") if capabilities.get(name)]
    return " ".join([vendor, torch.backends.cpu.get_cpu_capability(), *bf16])


def _supports_bf16(device: torch.device) -> bool:
    """Return whether the hardware multiplies bf16 matrices natively (GPU tensor cores, AMX, AVX-512 BF16)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
