"""The least memory that training and counting take, checked before they start."""

import torch

from bukva.backends.device import Machine
from bukva.config.schema import Training
from bukva.core import machine as this_machine
from bukva.core.errors import ParamsError
from bukva.models.base import Config
from bukva.models.registry import count_parameters
from bukva.training.optimizers import weight_copies

# Lower bounds; measured, a training takes 1.1 to 3.6 times as much.
SAVED_COPIES = 2  # of the weights, in the memory of the machine: the best and the initial ones
FLOAT_BYTES, HALF_BYTES = 4, 2
LOGIT_BYTES = 8  # of each character and class: a float32 and its gradient
COUNT_BYTES = 24  # of each id of train: its code twice while it is counted, and a share of the trie (RusLit: 113)
WINDOW_BYTES = 16  # of each character of a batch: its position in the text and its id


def check_memory(config: Config, recipe: Training, machine: Machine, local_size: int = 1) -> None:
    """Raise a BukvaError, before anything is allocated, for a training that does not fit this machine.

    The memory of its GPU counts, or that of the machine for all `local_size` processes of the training together.
    """
    on_gpu = machine.device.type == "cuda"
    _check(
        least_bytes(config, recipe, on_gpu=on_gpu) * (1 if on_gpu else local_size),
        machine.device,
        f"training {count_parameters(config):,} parameters with batches of {recipe.batch_size:,} windows of "
        f"{config.block_size:,} characters",
        "a smaller model, batch_size or block_size, or more micro_batches",
    )


def check_counting(n_ids: int) -> None:
    """Raise a BukvaError if the n-grams of so many ids of train do not fit this machine."""
    what = f"counting the n-grams of {n_ids:,} characters"
    _check(COUNT_BYTES * n_ids, torch.device("cpu"), what, "baselines.max_order 0, or a shorter text")


def _check(needed: int, device: torch.device, what: str, advice: str) -> None:
    available = memory_bytes(device)
    if needed > available:
        raise ParamsError(
            f"params.yaml: {what} needs at least {needed / 2**30:,.1f} GB of memory; this machine or its container "
            f"has {available / 2**30:,.1f}; use {advice}."
        )


def least_bytes(config: Config, recipe: Training, *, on_gpu: bool = False) -> int:
    """The least memory of the weights, of all tensors of their shapes, and of one micro-batch."""
    copies = weight_copies(recipe.optimizer) + (0 if on_gpu else SAVED_COPIES)
    chars = config.block_size * recipe.batch_size
    chars_at_once = chars // (recipe.micro_batches * getattr(recipe, "processes", 1))
    per_char = HALF_BYTES * config.activations_per_char + LOGIT_BYTES * config.vocab_size
    weights = FLOAT_BYTES * count_parameters(config) * copies
    return weights + chars_at_once * per_char + (0 if on_gpu else chars * WINDOW_BYTES)


def memory_bytes(device: torch.device) -> int:
    """Return all the memory of a GPU, or what this machine and its container have."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return this_machine.memory_bytes()
