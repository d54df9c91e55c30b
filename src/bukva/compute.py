"""What the hardware can: device, precision, threads, and the randomness of one step."""

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bukva import params
from bukva.errors import BukvaError
from bukva.models.bigram import BigramConfig
from bukva.models.gpt import GPTConfig

# What a training holds at the very least; measured, it takes 1.1 to 3.6 times as much.
UPDATED = {"adamw": 4, "muon": 3}  # of the size of the weights: themselves, their gradients and their moments
SAVED = 2  # likewise, in the memory of the machine: the best and the initial weights
BLOCK_NUMBERS = 16  # kept of each channel and layer for the backward pass, of 2 bytes in bf16
LOGIT_BYTES = 8  # of each character and class: a float32, and the gradient of it
WINDOW_BYTES = 16  # of each character of a batch: where it stands in the text, and its id
PER_CORE = 4  # processes; more of them would only wait for each other


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
        BukvaError: compute.device is cuda and there is none, or not one for each process.
    """
    available = torch.cuda.is_available()
    if compute.device == "cuda" and not available:
        raise BukvaError(
            "params.yaml, compute.device: 'cuda', but this machine has no usable GPU; auto or cpu would do."
        )
    if available and compute.device != "cpu" and local_rank >= torch.cuda.device_count():
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {local_size} on this machine, which has {torch.cuda.device_count()} "
            "usable GPUs; as many, or -S compute.device=cpu, would do."
        )
    device = torch.device(f"cuda:{local_rank}" if available and compute.device != "cpu" else "cpu")
    torch.set_num_threads(compute.threads or max(1, (os.cpu_count() or 1) // local_size))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS repeats its sums only with this
        torch.use_deterministic_algorithms(True, warn_only=True)
    bf16 = compute.precision == "bf16" or (compute.precision == "auto" and _multiplies_bf16(device))
    return Machine(device, torch.bfloat16 if bf16 else torch.float32)


def refuse_crowd(n_processes: int) -> None:
    """Raise, before they are started, for so many processes on this machine that it would do nothing else.

    Raises:
        BukvaError: names the number and the most that would do.
    """
    most = PER_CORE * (os.cpu_count() or 1)
    if n_processes > most:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {n_processes} on this machine, which has {os.cpu_count()} cores; "
            f"{most} or fewer would do."
        )


def refuse_too_large(
    config: GPTConfig | BigramConfig, recipe: params.Training, machine: Machine, local_size: int = 1
) -> None:
    """Raise, before anything is made, for a training that this machine cannot hold; what may fit passes.

    Args:
        config: the shape.
        recipe: the batch, its parts and the optimizer.
        machine: its GPU's memory counts, or that of all processes together.
        local_size: how many processes of the training are on this machine.

    Raises:
        BukvaError: names what is needed at least, and what there is.
    """
    on_gpu = machine.device.type == "cuda"
    weights, batch = least_bytes(config, recipe, on_gpu=on_gpu)
    needed, there = (weights + batch) * (1 if on_gpu else local_size), memory_bytes(machine.device)
    if needed > there:
        raise BukvaError(
            f"params.yaml: to train {config.n_parameters:,} parameters by batches of {recipe.batch_size:,} windows of "
            f"{config.block_size:,} characters takes {needed / 2**30:,.1f} GB of memory or more, and there are "
            f"{there / 2**30:,.1f}; {_remedy(config, weights > batch)} would do.\n{params.WAY_BACK}"
        )


def least_bytes(config: GPTConfig | BigramConfig, recipe: params.Training, *, on_gpu: bool = False) -> tuple[int, int]:
    """What the weights of a training and all in their shape take at least, and what one part of a batch does."""
    copies = UPDATED[recipe.optimizer] + (0 if on_gpu else SAVED)
    chars = config.block_size * recipe.batch_size
    parts = recipe.micro_batches * getattr(recipe, "processes", 1)
    kept = 2 * BLOCK_NUMBERS * config.n_layer * config.n_embd if isinstance(config, GPTConfig) else 0
    of_part = chars // parts * (kept + LOGIT_BYTES * config.vocab_size)
    return 4 * config.n_parameters * copies, of_part + (0 if on_gpu else chars * WINDOW_BYTES)


def memory_bytes(device: torch.device) -> int:
    """All the memory of a GPU, or of this machine."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _remedy(config: GPTConfig | BigramConfig, weighs_more: bool) -> str:
    if weighs_more:
        return "fewer characters in the text" if isinstance(config, BigramConfig) else "a smaller n_embd or n_layer"
    return "a smaller batch_size or block_size, or more micro_batches,"


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
