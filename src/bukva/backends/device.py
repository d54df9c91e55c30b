"""Choose the device, the precision and the number of threads with which models are computed."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from bukva.config.schema import Compute
from bukva.core.errors import BukvaError
from bukva.core.machine import keep_freed_memory, n_cores
from bukva.models.base import LanguageModel

MOST_ON_CPU = 25_000_000  # parameters of the largest model that generates on the CPU; estimated, not measured


@dataclass(frozen=True)
class Machine:
    """Device and precision of all computations with models.

    device: CPU or GPU.
    dtype: type of the matrix products in training and text generation; scores are always computed in float32.
    is_plain: whether models run without a backend (`compute.backend: plain`).
    """

    device: torch.device
    dtype: torch.dtype
    is_plain: bool = False

    def autocast(self) -> AbstractContextManager[None]:
        """Return a context manager in which matrix products are computed in `dtype`."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def numerics(self) -> dict[str, str]:
        """Return name -> value for everything that affects the rounding of sums, such as the version of torch.

        Training amplifies a difference in the last bit of a sum. So the same seed may give another model if one of the
        values differs. The name of the machine is not included.
        """
        return {
            "torch": torch.__version__.partition("+")[0],
            "numpy": np.__version__,
            "processor": torch.cuda.get_device_name(self.device)
            if self.device.type == "cuda"
            else _vendor_and_instructions(),
            "precision": str(self.dtype).removeprefix("torch."),
            "threads": str(torch.get_num_threads()),
        }

    def cast_blocks(self, model: LanguageModel) -> None:
        """Convert the matrices in the model's blocks to `dtype`, in place, for a model that only generates text.

        Text generation spends most of its time reading these matrices. autocast alone would read them in float32 and
        convert them again for each character.
        """
        for group in model.hidden_layers():
            for layer in group.layers:
                layer.to(self.dtype)


def prepare(compute: Compute, local_rank: int = 0, local_size: int = 1, *, is_deterministic: bool = True) -> Machine:
    """Choose a device and a precision that the hardware supports, and set up torch in this process.

    The number of threads and, on a GPU, deterministic algorithms are settings of the whole process. With
    `compute.device: cpu`, this process cannot use a GPU later.

    Args:
        compute: section `compute` of params.yaml.
        local_rank: rank of this process among the training processes on this machine; it selects the GPU.
        local_size: number of training processes on this machine; they share the cores.
        is_deterministic: whether only deterministic algorithms are allowed on a GPU.

    Raises:
        BukvaError: `compute.device` is `cuda` but this machine has no usable GPU, or it has no GPU for `local_rank`.
    """
    if (
        compute.device == "cpu"
    ):  # otherwise autograd starts a thread for each GPU, and workers cannot be forked after that
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    available = torch.cuda.is_available()
    if compute.device == "cuda" and not available:
        raise BukvaError(
            "params.yaml, compute.device=cuda: this machine has no usable GPU. Use compute.device=auto or "
            "compute.device=cpu."
        )
    if available and compute.device != "cpu" and local_rank >= torch.cuda.device_count():
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {local_size} processes need a GPU each, but this machine has only "
            f"{torch.cuda.device_count()} usable GPUs. Use fewer processes, or train on the CPU with "
            "-S compute.device=cpu."
        )
    device = torch.device(f"cuda:{local_rank}" if available and compute.device != "cpu" else "cpu")
    torch.set_num_threads(compute.threads or max(1, n_cores() // local_size))
    keep_freed_memory()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if device.type == "cuda" and is_deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS deterministic
        torch.use_deterministic_algorithms(True)  # not warn_only, with which flash attention is not deterministic
        torch.backends.cuda.enable_cudnn_sdp(False)  # torch then chooses flash, memory-efficient or math attention
        torch.utils.deterministic.fill_uninitialized_memory = False  # unneeded: all memory is written before it is read
    bf16 = compute.precision == "bf16" or (compute.precision == "auto" and _supports_bf16(device))
    return Machine(device, torch.bfloat16 if bf16 else torch.float32, compute.backend == "plain")


def generation_machine(model: LanguageModel, machine: Machine) -> Machine:
    """Return the machine on which the model generates text: the CPU for a small model on a GPU, else `machine`.

    On a GPU, each character needs about 35 kernel launches per block, and a small model spends most of its time waiting
    for these launches. On a CPU, a character takes about as long as reading the weights once. If a backend is turned
    off (`machine.is_plain`), the result is `machine`.
    """
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    if machine.device.type != "cuda" or machine.is_plain or n_parameters > MOST_ON_CPU:
        return machine
    cpu = torch.device("cpu")
    is_bf16 = machine.dtype == torch.bfloat16 and _supports_bf16(cpu)
    return Machine(cpu, torch.bfloat16 if is_bf16 else torch.float32)


def _vendor_and_instructions() -> str:
    """Return the CPU's vendor and its widest instruction sets. Math libraries choose their kernels by these two."""
    capabilities = torch.cpu.get_capabilities()
    vendor = str(capabilities.get("cpu_name") or capabilities.get("architecture", "CPU")).partition(" ")[0]
    bf16 = [name for name in ("avx512_bf16", "amx_bf16") if capabilities.get(name)]
    return " ".join([vendor, torch.backends.cpu.get_cpu_capability(), *bf16])


def _supports_bf16(device: torch.device) -> bool:
    """Return whether the hardware multiplies bf16 matrices natively (GPU tensor cores, AMX, AVX-512 BF16)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
