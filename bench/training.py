"""Row of training: single updates of a model of 10.8 million parameters."""

import time
from pathlib import Path
from typing import Any

from bench.measure import alternate, job
from bench.rows import Goal, Job, Measured, Row, Side
from bench.setting import BATCH_SIZE, MODEL, SHAPE, VOCAB_SIZE, config, params, use_all_cores

MICRO_BATCHES = 8  # the activations of eight windows stay in the cache
RATE = 1e-3
PEAK_SIZE = 4096  # of the square matrices whose product reaches the peak

# ---- jobs


def _train(n_updates: int) -> dict[str, Any]:
    from bukva.models.device import prepare
    from bukva.models.registry import build
    from bukva.training.run import Task, start, update
    from bukva.training.windows import Windows, micro_batches

    changes = {"model": MODEL, "train_gpt": {"batch_size": BATCH_SIZE, "micro_batches": MICRO_BATCHES}}
    values = params(changes)
    recipe, machine, shape = values.train_gpt, prepare(values.compute), config(values.model)
    windows = Windows(_random_ids(), shape.block_size, recipe.batch_size, recipe.order, recipe.seed)
    state = start(Task(lambda: build(shape), windows, lambda *_: 0.0, recipe, machine))
    state.model.train()

    def learn(step: int) -> None:
        batch = micro_batches(state.model, windows.batch(step), recipe.micro_batches, machine.device)
        update(state, batch, RATE, recipe, machine)

    learn(1)
    started_at = time.perf_counter()
    for step in range(2, n_updates + 2):
        learn(step)
    seconds = (time.perf_counter() - started_at) / n_updates
    return {"chars_per_second": windows.ids_per_step / seconds, "operations_per_second": _operations() / seconds}


def _train_plain(n_updates: int) -> dict[str, Any]:
    from bench.plain.gpt import PlainTraining, Recipe, Shape

    use_all_cores()
    ids = _random_ids()
    training = PlainTraining(Shape(VOCAB_SIZE, **SHAPE), Recipe(batch_size=BATCH_SIZE), ids, ids, seed=1)
    training.update(0)
    started_at = time.perf_counter()
    for step in range(1, n_updates + 1):
        training.update(step)
    seconds = (time.perf_counter() - started_at) / n_updates
    return {"chars_per_second": BATCH_SIZE * SHAPE["block_size"] / seconds}


def _peak() -> dict[str, Any]:
    """The most operations per second that one matrix product reaches, in the type that training uses here."""
    import torch

    from bukva.models.device import prepare

    machine = prepare(params({}).compute)
    n, best = PEAK_SIZE, 0.0
    a, b = (torch.randn(n, n, device=machine.device).to(machine.dtype) for _ in "ab")
    for _ in range(12):
        started_at = time.perf_counter()
        (a @ b)[0, 0].item()  # reading a number waits for a GPU
        best = max(best, 2 * n**3 / (time.perf_counter() - started_at))
    return {"operations_per_second": best, "dtype": str(machine.dtype).removeprefix("torch.")}


def _operations() -> float:
    """Of one update: 6 per matrix parameter and character, and the causal half of the products of attention."""
    L, C, T = SHAPE["n_layer"], SHAPE["n_embd"], SHAPE["block_size"]
    return BATCH_SIZE * T * (6 * (12 * L * C**2 + VOCAB_SIZE * C) + 6 * L * C * T)


def _random_ids() -> Any:
    import numpy as np

    return np.random.default_rng(1).integers(VOCAB_SIZE, size=300_000).astype(np.uint8)


# ---- row


def training(_: Path) -> Measured:
    """Both sides twice, in turn; and our share of the peak of this machine."""
    ours, plain = alternate(2, lambda: job("train", n_updates=3), lambda: job("train-plain", n_updates=1))
    peaks = [job("peak") for _ in range(2)]
    our_side, plain_side = Side.of(ours, "chars_per_second"), Side.of(plain, "chars_per_second")
    reached = Side.of(ours, "operations_per_second").median
    peak = max(outcome.values["operations_per_second"] for outcome in peaks)
    dtype = peaks[0].values["dtype"]
    return Measured(
        {"ratio": our_side.median / plain_side.median, "share of peak": 100 * reached / peak},
        our_side,
        plain_side,
        notes=(
            f"training: {reached / 1e9:.0f} of {peak / 1e9:.0f} GFLOPS; the peak is that of one matrix product in "
            f"{dtype}",
        ),
    )


JOBS: dict[str, Job] = {"train": _train, "train-plain": _train_plain, "peak": _peak}
ROWS = (
    Row(
        "training",
        "training 6 layers, 6 heads, 384 channels, block 256, batch 64, dropout 0.2",
        "chars/s",
        (Goal("ratio", "x", 4, 6), Goal("share of peak", "%", 35, 50)),
        training,
        "a plain loop in float32",
    ),
)
