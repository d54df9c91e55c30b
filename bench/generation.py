"""Rows of generation: one sequence, and many at once."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import Outcome, job
from bench.rows import Goal, Job, Measured, Row, Side
from bench.setting import MODEL, SHAPE, VOCAB_SIZE, config, params, use_all_cores

N_CHARS = 1000
MANY = 64

# ---- jobs


def _generate(n_sequences: int) -> dict[str, Any]:
    import torch

    from bukva.generation.sampling import generate
    from bukva.models.device import prepare
    from bukva.models.registry import build

    values = params({"model": MODEL})
    machine = prepare(values.compute)
    model, rng = build(config(values.model)).eval(), torch.Generator().manual_seed(1)
    machine.cast_blocks(model)
    prompt = torch.zeros(n_sequences, 1, dtype=torch.int64)
    with machine.autocast():
        return _timed(
            lambda n: generate(model, prompt, n, temperature=1.0, top_k=0, top_p=1.0, rng=rng), N_CHARS * n_sequences
        )


def _generate_plain(n_sequences: int, n_chars: int) -> dict[str, Any]:
    import torch

    from bench.plain.gpt import PlainGPT, Shape, generate

    use_all_cores()
    model = PlainGPT(Shape(VOCAB_SIZE, **SHAPE))
    # fewer characters start with a full window, so that each costs as much as one of many
    prompt = torch.zeros(n_sequences, 1 if n_chars == N_CHARS else SHAPE["block_size"], dtype=torch.int64)
    return _timed(lambda n: generate(model, prompt, min(n, n_chars)), n_chars * n_sequences)


def _timed(generate: Callable[[int], Any], n_chars: int) -> dict[str, Any]:
    """Characters per second of generating N_CHARS per sequence, after a short warm-up; `n_chars` are those in all."""
    generate(2)
    started_at = time.perf_counter()
    generate(N_CHARS)
    return {"chars_per_second": n_chars / (time.perf_counter() - started_at)}


# ---- rows


def generation(_: Path) -> Measured:
    """One sequence of N_CHARS characters."""
    return _compare(job("generate", n_sequences=1), job("generate-plain", n_sequences=1, n_chars=N_CHARS))


def generation_of_many(_: Path) -> Measured:
    """MANY sequences at once; the plain side generates a few characters of them."""
    return _compare(job("generate", n_sequences=MANY), job("generate-plain", n_sequences=MANY, n_chars=4))


def _compare(ours: Outcome, plain: Outcome) -> Measured:
    our_side, plain_side = (Side.of([outcome], "chars_per_second") for outcome in (ours, plain))
    return Measured({"ratio": our_side.median / plain_side.median}, our_side, plain_side)


JOBS: dict[str, Job] = {"generate": _generate, "generate-plain": _generate_plain}
ROWS = (
    Row(
        "generation",
        f"generating one sequence of {N_CHARS:,} characters with that model",
        "chars/s",
        (Goal("ratio", "x", 15, 25),),
        generation,
        "recomputing the whole window for each character",
    ),
    Row(
        f"generation-{MANY}",
        f"generating {MANY} such sequences at once",
        "chars/s",
        (Goal("ratio", "x"),),
        generation_of_many,
        "the same, for 4 characters of each",
    ),
)
