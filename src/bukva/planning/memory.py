"""Check before training, and before counting n-grams, that there is enough memory.

The checks compare lower bounds of the needed memory with the memory of the GPU or of this machine.
"""

import torch

from bukva.backends.device import Machine
from bukva.config.schema import Training
from bukva.core import machine as this_machine
from bukva.core.errors import ParamsError
from bukva.models.base import Config
from bukva.models.registry import count_parameters
from bukva.training.optimizers import weight_copies

# Measured training runs take 1.1 to 3.6 times as much memory as the lower bounds of `least_bytes`.
SAVED_COPIES = 2  # copies of the weights in main memory: the best and the initial weights
FLOAT_BYTES, HALF_BYTES = 4, 2
LOGIT_BYTES = 8  # per character and class: a float32 logit and its gradient
COUNT_BYTES = 24  # per id of the training split: two int64 codes, and its part of the trie (measured on RusLit: 113)
WINDOW_BYTES = 16  # per character of a batch: its position in the text and its id


def check_memory(config: Config, recipe: Training, machine: Machine, local_size: int = 1) -> None:
    """Check, before anything is allocated, that training fits into memory.

    On a GPU, one process must fit into the GPU's memory. On a CPU, all `local_size` processes together must fit into
    the memory of the machine.

    Raises:
        BukvaError: the memory is too small.
    """
    on_gpu = machine.device.type == "cuda"
    _check(
        least_bytes(config, recipe, on_gpu=on_gpu) * (1 if on_gpu else local_size),
        machine.device,
        f"training {count_parameters(config):,} parameters with batches of {recipe.batch_size:,} windows of "
        f"{config.block_size:,} characters",
        "Use a smaller model, batch_size or block_size, or more micro_batches",
    )


def check_counting(n_ids: int) -> None:
    """Check that there is enough memory to count the n-grams of a training split of `n_ids` ids.

    Raises:
        BukvaError: the memory is too small.
    """
    what = f"counting the n-grams of {n_ids:,} characters"
    _check(COUNT_BYTES * n_ids, torch.device("cpu"), what, "Set baselines.max_order=0, or use a shorter text")


def _check(needed: int, device: torch.device, what: str, advice: str) -> None:
    available = memory_bytes(device)
    if needed > available:
        raise ParamsError(
            f"params.yaml: {what} needs at least {needed / 2**30:,.1f} GB of memory, but only "
            f"{available / 2**30:,.1f} GB is available. {advice}."
        )


def least_bytes(config: Config, recipe: Training, *, on_gpu: bool = False) -> int:
    """Return a lower bound of the memory for one training process, in bytes.

    It includes weights, gradients, the optimizer's state and one micro-batch. With `on_gpu=True`, this is memory of the
    GPU. Otherwise it also includes saved copies of the weights and the windows of a batch.
    """
    copies = weight_copies(recipe.optimizer) + (0 if on_gpu else SAVED_COPIES)
    n_ids = config.block_size * recipe.batch_size
    micro_batch_ids = n_ids // (recipe.micro_batches * getattr(recipe, "processes", 1))
    bytes_per_id = HALF_BYTES * config.activations_per_id + LOGIT_BYTES * config.vocab_size
    weights = FLOAT_BYTES * count_parameters(config) * copies
    return weights + micro_batch_ids * bytes_per_id + (0 if on_gpu else n_ids * WINDOW_BYTES)


def memory_bytes(device: torch.device) -> int:
    """Return the total memory of a GPU in bytes, or for a CPU, the memory that this machine or its container has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return this_machine.memory_bytes()
