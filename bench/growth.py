"""Row of growth: time and memory of the steps of the text, by the size of the text."""

import time
from pathlib import Path
from typing import Any

from bench.corpora import fetched
from bench.measure import Outcome, job
from bench.rows import Goal, Job, Measured, Row
from bench.text import without_folder

GROWTH = (1, 4, 16)  # times the text of every sixteenth work, so that the largest is about as long as RusLit
STEPS = ("clean", "tokenize", "split", "pairs")

# ---- jobs


def _repeat(raw: str, target: str, times: int) -> dict[str, Any]:
    """Every sixteenth work of a collection, repeated under other names."""
    from bukva.text.collection import Document, read_table, read_texts, write_collection

    table = read_table(Path(raw)).iloc[:: GROWTH[-1]]
    chosen = [(document, list(pieces)) for document, pieces in read_texts(Path(raw), table)]
    copies = (
        (Document(document.category, document.author, f"{document.work}-{copy}"), text)
        for copy in range(times)
        for document, text in chosen
    )
    write_collection(Path(target), copies)
    return {}


def _split(tokens: str, split: str) -> dict[str, Any]:
    import numpy as np
    import pandas as pd  # noqa: F401 - so that its import is not timed

    from bukva.text.splits import read_shares, save_splits

    target = without_folder(split)
    started_at = time.perf_counter()
    ids = np.load(Path(tokens, "ids.npy"), mmap_mode="r")
    save_splits(target, ids, read_shares(Path(tokens)))
    return {"seconds": time.perf_counter() - started_at, "chars": len(ids)}


def _pairs(split: str, tokens: str) -> dict[str, Any]:
    from bukva.models.ngrams.counts import count_pairs
    from bukva.text.splits import load_splits
    from bukva.text.tokenizers import load_tokenizer

    vocab_size = len(load_tokenizer(Path(tokens)))
    started_at = time.perf_counter()
    pairs = [count_pairs(ids, vocab_size) for ids in load_splits(Path(split)).values()]
    return {"seconds": time.perf_counter() - started_at, "chars": sum(int(counts.sum()) + 1 for counts in pairs)}


# ---- row


def growth(scratch: Path) -> Measured:
    """Our steps at three sizes of text."""
    outcomes = {times: _steps(scratch, times) for times in GROWTH}
    costs = {step: [_cost(outcomes[times][step]) for times in GROWTH] for step in STEPS}
    peaks = {step: [outcomes[times][step].peak_bytes / 1e6 for times in GROWTH] for step in STEPS}
    sizes = ", ".join(f"{outcomes[times]['clean'].values['chars'] / 1e6:.1f}" for times in GROWTH)
    notes = [f"growth, {step}: {_listed(costs[step], '.4f')} s and {_listed(peaks[step], '.0f')} MB" for step in STEPS]
    return Measured(
        {
            "cost": max(costs[step][-1] / costs[step][0] for step in STEPS),
            "memory": max(peaks[step][-1] - peaks[step][0] for step in STEPS),
        },
        notes=(f"growth: seconds per million characters and peak memory at {sizes} million characters", *notes),
        details={"times": GROWTH, "seconds_per_million_chars": costs, "peak_mb": peaks},
    )


def _steps(scratch: Path, times: int) -> dict[str, Outcome]:
    """Each step on the text repeated so many times."""
    folder = scratch / f"growth-{times}"
    raw, clean, tokens, split = (folder / name for name in ("raw", "clean", "tokens", "split"))
    job("repeat", raw=fetched(scratch, "ruslit"), target=raw, times=times)
    return {
        "clean": job("clean", raw=raw, clean=clean),
        "tokenize": job("tokenize", clean=clean, tokens=tokens),
        "split": job("split", tokens=tokens, split=split),
        "pairs": job("pairs", split=split, tokens=tokens),
    }


def _cost(outcome: Outcome) -> float:
    return float(outcome.values["seconds"] / outcome.values["chars"] * 1e6)


def _listed(values: list[float], digits: str) -> str:
    return ", ".join(format(value, digits) for value in values)


JOBS: dict[str, Job] = {"repeat": _repeat, "split": _split, "pairs": _pairs}
ROWS = (
    Row(
        "growth",
        "clean, tokenize, split and counting pairs: 16 times the text relative to once, the worst of the four",
        "s",
        (Goal("cost", "x", less_is_better=True), Goal("memory", "MB", less_is_better=True)),
        growth,
    ),
)
