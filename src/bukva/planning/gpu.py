"""Predict the memory and the time of training on a GPU that this machine does not have."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from bukva.config.messages import one_or_another
from bukva.config.schema import TrainGPT
from bukva.core.errors import BukvaError
from bukva.core.progress import duration, quantity
from bukva.models.gpt import GPTConfig
from bukva.models.registry import count_parameters
from bukva.planning.memory import FLOAT_BYTES, HALF_BYTES, least_bytes
from bukva.training.optimizers import weight_copies


@dataclass(frozen=True)
class Card:
    """A type of GPU.

    name: the name that torch reports.
    memory: size of the memory in GiB.
    tflops: peak TFLOPS of dense bf16 matrix products with float32 accumulation.
    """

    name: str
    memory: int
    tflops: float


# Sources: NVIDIA's data sheets (for H100 SXM, H200 and L4, half of the figure "with sparsity"), and for the RTX 4090,
# NVIDIA's "Ada GPU architecture" paper. torch reports up to 2 GiB less memory, because the card reserves some.
CARDS = {
    "h100": Card("NVIDIA H100 80GB HBM3", 80, 989),
    "h200": Card("NVIDIA H200", 141, 989),
    "a100": Card("NVIDIA A100-SXM4-80GB", 80, 312),
    "l4": Card("NVIDIA L4", 24, 121),
    "rtx4090": Card("NVIDIA GeForce RTX 4090", 24, 165.2),
}

# Measured on one H100 80GB on 2026-11-26 at commit 1796985, with a prototype that compiled the loss function and
# captured an update as one CUDA graph.
SMALLEST_UPDATE = 0.96e-3  # seconds per update of the default model; a smaller model launches the same kernels
MEASURED_FRACTION = 0.17  # fraction of the peak: 166 of 989 TFLOPS, with 10.7 million parameters
HIGHEST_FRACTION = 0.4  # not measured; well-tuned training of large models reaches this fraction
SECONDS_PER_LOOKUP = 54.7e-3 / 2**14  # per id, in updates with n-grams; 16 CPU cores did the lookups
NOT_MEASURED = "Predicted from measurements of one H100 on 2026-11-26. Nothing was measured on this machine."


def card_named(name: str) -> Card:
    """Return the type of GPU with the key `name` in CARDS, ignoring case.

    Raises:
        BukvaError: CARDS does not contain this key.
    """
    if name.lower() not in CARDS:
        raise BukvaError(f"`--gpu {name}` is not a known GPU. Use {one_or_another(list(CARDS))}.")
    return CARDS[name.lower()]


def flops_per_id(config: GPTConfig) -> int:
    """Return the floating-point operations per id in training. A third of them belong to the forward pass.

    The result is 6 N + 6 L C T for N parameters in matrix products, L layers, C channels and T positions. The sources
    have 12 L C T, because they also count the half of attention that the causal mask hides. Attention kernels skip this
    half. Sources: Chowdhery et al. 2022, "PaLM", appendix B; nanoGPT's estimate_mfu.
    """
    V, C, T = config.vocab_size, config.n_embd, config.block_size
    # rows of embedding tables are looked up, without a matrix product
    looked_up = (0 if config.tie_weights else V * C) + (T * C if config.positions == "learned" else 0)
    return 6 * (count_parameters(config) - looked_up) + 6 * config.n_layer * C * T


def seconds_per_update(config: GPTConfig, batch_size: int, card: Card, fraction: float) -> float:
    """Predict the seconds per update if matrix products reach `fraction` of the card's peak TFLOPS.

    An update takes at least the time that was measured for a small model. With n-grams, it takes at least the time to
    look up the n-grams.
    """
    n_ids = batch_size * config.block_size
    lookup = n_ids * SECONDS_PER_LOOKUP if config.counts else 0.0
    return max(SMALLEST_UPDATE, lookup, n_ids * flops_per_id(config) / (fraction * card.tflops * 1e12))


def prediction_lines(
    config: GPTConfig, recipe: TrainGPT, card: Card, train_ids: int, budget: float = 0.0
) -> Iterator[str]:
    """Predict the memory and the time of training with one process on one GPU, and yield the lines to print.

    Args:
        config: the GPT to train.
        recipe: settings of the training run.
        card: the type of GPU.
        train_ids: number of ids in the training split.
        budget: time budget in seconds, or 0 for none. With a budget, a line says how many updates fit into it.
    """
    recipe = recipe.model_copy(update={"processes": 1})
    n_parameters, n_ids = count_parameters(config), recipe.batch_size * config.block_size
    weights = FLOAT_BYTES * n_parameters * weight_copies(recipe.optimizer)
    experts = config.activations_per_id - dataclasses.replace(config, ngrams="none").activations_per_id
    needed, ngrams = least_bytes(config, recipe, on_gpu=True), HALF_BYTES * experts * n_ids // recipe.micro_batches
    fast, slow = (seconds_per_update(config, recipe.batch_size, card, s) for s in (HIGHEST_FRACTION, MEASURED_FRACTION))
    yield f"Prediction for one {card.name} with the model and training settings of params.yaml:"
    yield f"Model: {quantity(n_parameters)} parameters, {n_ids * flops_per_id(config) / 1e12:.3g} TFLOP per update"
    parts = {"weights and optimizer": weights, "activations": needed - weights - ngrams}
    parts |= {"n-gram distributions": ngrams} if ngrams else {}
    shown = ", ".join(f"{part} {size / 2**30:.2f} GiB" for part, size in parts.items())
    yield f"Memory: at least {needed / 2**30:.2f} of {card.memory} GiB ({shown})"
    yield (
        f"One update of {n_ids:,} ids: {1000 * fast:.3g} ms (at {100 * HIGHEST_FRACTION:.0f} % of {card.tflops:g} "
        f"TFLOPS) to {1000 * slow:.3g} ms (at {100 * MEASURED_FRACTION:.0f} %)"
    )
    yield (
        f"All {recipe.n_steps:,} updates ({recipe.n_steps * n_ids / train_ids:.1f} epochs): "
        f"{duration(recipe.n_steps * fast)} to {duration(recipe.n_steps * slow)}, without compilation and scoring"
    )
    if budget:
        yield f"Updates that fit into {duration(budget)}: {int(budget / slow):,} to {int(budget / fast):,}"
    if needed > card.memory * 2**30:
        yield (
            "Warning: the memory of this GPU is too small. Increase `train_gpt.micro_batches`, or use a smaller model "
            "or batch."
        )
    yield NOT_MEASURED
