"""Check that there is enough memory, before training and before counting n-grams.

Each check compares a lower bound of the needed memory with the memory of the GPU or of this machine.
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
SAVED_COPIES = 2  # copies of the weights in main memory: the weights with the best score, and the initial weights
FLOAT_BYTES, HALF_BYTES = 4, 2
LOGIT_BYTES = 8  # per character and class: a float32 logit and its gradient
# per id of the training split: two int64 codes, and 8 bytes for the trie; counting RusLit took 113 bytes per id
COUNT_BYTES = 24
WINDOW_BYTES = 16  # per character of a batch: position in the text, and id


def check_memory(config: Config, recipe: Training, machine: Machine, local_size: int = 1) -> None:
    """Check that training fits into memory. Call this function before memory is allocated for training.

    On a GPU, one process must fit into the memory of its GPU. On a CPU, all `local_size` processes together must fit
    into the memory of the machine.

    Raises:
        BukvaError: the memory is too small.
    """
    on_gpu = machine.device.type == "cuda"
    _check(
        least_bytes(config, recipe, on_gpu=on_gpu) * (1 if on_gpu else local_size),
        machine.device,
        f"training {count_parameters(config):,} parameters with batches of {recipe.batch_size:,} windows of "
        f"{config.block_size:,} characters",
        "Use a smaller model, `batch_size` or `block_size`, or increase `micro_batches`",
    )


def check_counting(n_ids: int) -> None:
    """Check that there is enough memory to count the n-grams of a training split of `n_ids` ids.

    Raises:
        BukvaError: the memory is too small.
    """
    what = f"counting the n-grams of {n_ids:,} characters"
    _check(COUNT_BYTES * n_ids, torch.device("cpu"), what, "Set `baselines.max_order` to 0, or use a shorter text")


def _check(needed: int, device: torch.device, what: str, advice: str) -> None:
    available = memory_bytes(device)
    if needed > available:
        raise ParamsError(
            f"params.yaml: {what} needs at least {needed / 2**30:,.1f} GiB of memory, but only "
            f"{available / 2**30:,.1f} GiB are available. {advice}."
        )


def least_bytes(config: Config, recipe: Training, *, on_gpu: bool = False) -> int:
    """Return a lower bound of the memory that one training process needs, in bytes.

    The bound includes the weights, the gradients, the optimizer's state and one micro-batch. With `on_gpu=True`, it
    counts only memory of the GPU. With `on_gpu=False`, it also includes saved copies of the weights and the windows of
    a batch.
    """
    copies = weight_copies(recipe.optimizer) + (0 if on_gpu else SAVED_COPIES)
    n_ids = config.block_size * recipe.batch_size
    micro_batch_ids = n_ids // (recipe.micro_batches * getattr(recipe, "processes", 1))
    bytes_per_id = HALF_BYTES * config.activations_per_id + LOGIT_BYTES * config.vocab_size
    weights = FLOAT_BYTES * count_parameters(config) * copies
    return weights + micro_batch_ids * bytes_per_id + (0 if on_gpu else n_ids * WINDOW_BYTES)


def memory_bytes(device: torch.device) -> int:
    """Return the total memory of a GPU in bytes. For a CPU, return the memory of this machine or of its container."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return this_machine.memory_bytes()
