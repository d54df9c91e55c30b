"""Where and how precisely models are computed: device, precision, threads."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch

from bukva.config.schema import Compute
from bukva.core.errors import BukvaError
from bukva.core.machine import keep_freed_memory, n_cores
from bukva.models.base import LanguageModel

MOST_ON_CPU = 25_000_000  # parameters of a model that writes on the CPU; estimated, not measured


@dataclass(frozen=True)
class Machine:
    """Where and how models are computed.

    device: CPU or GPU.
    dtype: of the matrix products in training; weights and scores are always float32.
    is_plain: no backend is attached, so that bukva.models is what runs (compute.backend: plain).
    """

    device: torch.device
    dtype: torch.dtype
    is_plain: bool = False

    def autocast(self) -> AbstractContextManager[None]:
        """Matrix products in `dtype` within this block."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def numerics(self) -> dict[str, str]:
        """Return what decides the rounding of sums: versions, processor, precision and number of threads.

        A training amplifies the last bit of a sum, so where one of these differs, the same seed may give another model.
        The name of the machine is not included.
        """
        return {
            "torch": torch.__version__.partition("+")[0],
            "numpy": np.__version__,
            "processor": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else _instructions(),
            "precision": str(self.dtype).removeprefix("torch."),
            "threads": str(torch.get_num_threads()),
        }

    def cast_blocks(self, model: LanguageModel) -> None:
        """Keep the matrices of the blocks in `dtype`, for a model that only generates.

        A generated character costs little more than reading them all, and autocast would convert them each time.
        """
        for group in model.hidden_layers():
            for layer in group.layers:
                layer.to(self.dtype)


def prepare(compute: Compute, local_rank: int = 0, local_size: int = 1, *, is_deterministic: bool = True) -> Machine:
    """Choose device and precision by what the hardware supports, and set the number of threads of this process.

    Args:
        compute: section compute of params.yaml.
        local_rank: the number of this process among those of one training on this machine; each has its own GPU.
        local_size: the number of these processes; they share the cores.
        is_deterministic: on a GPU, let torch use deterministic algorithms only, in the whole process.

    Raises:
        BukvaError: compute.device is cuda and there is no GPU, or there are fewer GPUs than processes.
    """
    if compute.device == "cpu":  # autograd starts a thread for each visible GPU, and forks do not survive that
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    available = torch.cuda.is_available()
    if compute.device == "cuda" and not available:
        raise BukvaError("params.yaml, compute.device: 'cuda', but this machine has no usable GPU; use auto or cpu.")
    if available and compute.device != "cpu" and local_rank >= torch.cuda.device_count():
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {local_size} on this machine, which has {torch.cuda.device_count()} "
            "usable GPUs; use one process per GPU, or -S compute.device=cpu."
        )
    device = torch.device(f"cuda:{local_rank}" if available and compute.device != "cpu" else "cpu")
    torch.set_num_threads(compute.threads or max(1, n_cores() // local_size))
    keep_freed_memory()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if device.type == "cuda" and is_deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # makes cuBLAS deterministic
        torch.use_deterministic_algorithms(True)  # with warn_only, flash attention is not deterministic
        torch.backends.cuda.enable_cudnn_sdp(False)  # leaves flash, memory-efficient and plain attention
        torch.utils.deterministic.fill_uninitialized_memory = False  # no memory is read before it is written
    bf16 = compute.precision == "bf16" or (compute.precision == "auto" and _supports_bf16(device))
    return Machine(device, torch.bfloat16 if bf16 else torch.float32, compute.backend == "plain")


def generation_machine(model: LanguageModel, machine: Machine) -> Machine:
    """Return the machine on which a model generates text: the CPU for a small one, because a GPU waits for launches.

    A character costs some 35 launches for each block on a GPU, and on a CPU the time to read the weights once.
    """
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    if machine.device.type != "cuda" or machine.is_plain or n_parameters > MOST_ON_CPU:
        return machine
    cpu = torch.device("cpu")
    is_half = machine.dtype == torch.bfloat16 and _supports_bf16(cpu)
    return Machine(cpu, torch.bfloat16 if is_half else torch.float32)


def _instructions() -> str:
    """The vendor of the CPU, by which libraries choose their kernels, and its widest instructions."""
    known = torch.cpu.get_capabilities()
    vendor = str(known.get("cpu_name") or known.get("architecture", "CPU")).partition(" ")[0]
    bf16 = [name for name in ("avx512_bf16", "amx_bf16") if known.get(name)]
    return " ".join([vendor, torch.backends.cpu.get_cpu_capability(), *bf16])


def _supports_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bf16 matrices natively (GPU tensor cores, AMX, AVX-512 BF16)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
