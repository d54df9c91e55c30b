"""Row of scoring: the window rule, and its forward passes alone."""

import time
from pathlib import Path
from typing import Any

from bench.corpora import fetched, load_tinyshakespeare
from bench.measure import job
from bench.rows import Goal, Job, Measured, Row, Side
from bench.setting import config, params

# ---- job


def _scoring(raw: str) -> dict[str, Any]:
    """Scoring by the window rule and its forward passes alone, in turn in one process."""
    import numpy as np
    import torch

    from bukva.models.device import prepare
    from bukva.models.registry import build
    from bukva.models.window_rule import BATCH_CHARS, nats_of, stride_of

    values, (_, val) = params({"model": {"ngrams": "none"}}), load_tinyshakespeare(raw)
    prepare(values.compute)
    model = build(config(values.model)).eval()
    T, stride = model.block_size, stride_of(model.block_size)
    starts = np.arange(0, len(val) - 1 - T + 1, stride)
    split = np.array_split(starts, -(-len(starts) * T // BATCH_CHARS["cpu"]))
    batches = [torch.from_numpy(val[starts[:, None] + np.arange(T)].astype(np.int64)) for starts in split]
    seconds: dict[str, list[float]] = {"scoring": [], "forward": []}
    for _ in range(5):
        started_at = time.perf_counter()
        nats_of(model, val, T, stride)
        seconds["scoring"].append(time.perf_counter() - started_at)
        started_at = time.perf_counter()
        with torch.inference_mode():
            for batch in batches:
                model(batch)
        seconds["forward"].append(time.perf_counter() - started_at)
    return {f"{what}_chars_per_second": (len(val) - 1) / sorted(times)[2] for what, times in seconds.items()}


# ---- row


def scoring(scratch: Path) -> Measured:
    """Scoring, and its forward passes."""
    outcome = job("scoring", raw=fetched(scratch, "tinyshakespeare"))
    ours, plain = (Side.of([outcome], f"{what}_chars_per_second") for what in ("scoring", "forward"))
    return Measured({"share": 100 * ours.median / plain.median}, ours, plain)


JOBS: dict[str, Job] = {"scoring": _scoring}
ROWS = (
    Row(
        "scoring",
        "scoring a whole split with the default model, without its n-grams",
        "chars/s",
        (Goal("share", "%", 70, 90),),
        scoring,
        "only the forward passes of the same batches",
    ),
)
