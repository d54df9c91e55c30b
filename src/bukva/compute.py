"""What the hardware can: device, precision, threads, and the randomness of one step."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bukva import params
from bukva.errors import BukvaError


@dataclass(frozen=True)
class Machine:
    """Where and how precisely the models are computed."""

    device: torch.device
    dtype: torch.dtype  # of the matrix products while training; weights and scores are always float32

    def autocast(self) -> AbstractContextManager[None]:
        """Matrix products in `dtype` within this block."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def lighten(self, model: nn.Module) -> None:
        """Keep the matrices of the blocks in `dtype`, for a model that only writes.

        A character costs little more than reading them all, and autocast would convert them anew for each.
        """
        for name, module in model.named_modules():
            if name.startswith("blocks.") and isinstance(module, nn.Linear):
                module.to(self.dtype)


def prepare(compute: params.Compute, local_rank: int = 0, local_size: int = 1) -> Machine:
    """Decide device and precision by what the hardware can, and set the number of threads of this process.

    Args:
        compute: section compute of params.yaml.
        local_rank: which of the processes of one training on this machine this is; each has a GPU of its own.
        local_size: how many those are; they share the cores.

    Raises:
        BukvaError: compute.device is cuda and there is none.
    """
    available = torch.cuda.is_available()
    if compute.device == "cuda" and not available:
        raise BukvaError(
            "params.yaml, compute.device: 'cuda', but this machine has no usable GPU; auto or cpu would do."
        )
    device = torch.device(f"cuda:{local_rank}" if available and compute.device != "cpu" else "cpu")
    torch.set_num_threads(compute.threads or max(1, (os.cpu_count() or 1) // local_size))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS repeats its sums only with this
        torch.use_deterministic_algorithms(True, warn_only=True)
    bf16 = compute.precision == "bf16" or (compute.precision == "auto" and _multiplies_bf16(device))
    return Machine(device, torch.bfloat16 if bf16 else torch.float32)


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's global generators, which dropout draws from, for one step of one process.

    Randomness that is a function of these numbers alone needs no generator state to be saved, and nothing that
    happens between two steps can disturb it.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1)))


def _multiplies_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bf16 matrices itself (GPU tensor cores, AMX, AVX-512 BF16)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
