"""The least memory that training and counting take, checked before they start."""

import os

import torch

from bukva.config.messages import WAY_BACK
from bukva.config.schema import Training
from bukva.core.errors import BukvaError
from bukva.models.base import Config
from bukva.models.device import Machine
from bukva.models.registry import count_parameters
from bukva.training.optimizers import weight_copies

# Lower bounds; measured, a training takes 1.1 to 3.6 times as much.
SAVED_COPIES = 2  # of the weights, in the memory of the machine: the best and the initial ones
FLOAT_BYTES, HALF_BYTES = 4, 2
LOGIT_BYTES = 8  # of each character and class: a float32 and its gradient
COUNT_BYTES = 24  # of each id of train: its code twice while it is counted, and a share of the trie (RusLit: 113)
WINDOW_BYTES = 16  # of each character of a batch: its position in the text and its id


def check_memory(config: Config, recipe: Training, machine: Machine, local_size: int = 1) -> None:
    """Raise, before anything is allocated, for a training that does not fit this machine.

    Args:
        config: the shape of the model.
        recipe: batch, micro-batches and optimizer.
        machine: the memory of its GPU counts, or that of the machine for all processes together.
        local_size: how many processes of the training run on this machine.

    Raises:
        BukvaError: names the least memory that is needed, and the memory of the machine.
    """
    on_gpu = machine.device.type == "cuda"
    weights, batch = least_bytes(config, recipe, on_gpu=on_gpu)
    needed, available = (weights + batch) * (1 if on_gpu else local_size), memory_bytes(machine.device)
    if needed > available:
        advice = (
            "use a smaller model, or a text with fewer characters" if weights > batch
            else "use a smaller batch_size or block_size, or more micro_batches"
        )  # fmt: skip
        raise BukvaError(
            f"params.yaml: training {count_parameters(config):,} parameters with batches of {recipe.batch_size:,} "
            f"windows of {config.block_size:,} characters needs at least {needed / 2**30:,.1f} GB of memory; this "
            f"machine has {available / 2**30:,.1f}; {advice}.\n{WAY_BACK}"
        )


def check_counting(n_ids: int, advice: str) -> None:
    """Raise if the n-grams of so many ids of train do not fit this machine.

    Args:
        n_ids: ids of train.
        advice: the setting that counts none.

    Raises:
        BukvaError: names the least memory that is needed, the memory of the machine, and the advice.
    """
    needed, available = COUNT_BYTES * n_ids, memory_bytes(torch.device("cpu"))
    if needed > available:
        raise BukvaError(
            f"params.yaml: counting the n-grams of {n_ids:,} characters needs at least {needed / 2**30:,.1f} GB of "
            f"memory; this machine has {available / 2**30:,.1f}; use {advice}, or a shorter text.\n{WAY_BACK}"
        )


def least_bytes(config: Config, recipe: Training, *, on_gpu: bool = False) -> tuple[int, int]:
    """Bytes: the least memory of the weights and of all tensors of their shapes, and of one micro-batch."""
    copies = weight_copies(recipe.optimizer) + (0 if on_gpu else SAVED_COPIES)
    chars = config.block_size * recipe.batch_size
    chars_at_once = chars // (recipe.micro_batches * getattr(recipe, "processes", 1))
    per_char = HALF_BYTES * config.activations_per_char + LOGIT_BYTES * config.vocab_size
    weights = FLOAT_BYTES * count_parameters(config) * copies
    return weights, chars_at_once * per_char + (0 if on_gpu else chars * WINDOW_BYTES)


def memory_bytes(device: torch.device) -> int:
    """All the memory of a GPU, or of this machine."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
