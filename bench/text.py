"""Rows of the text: cleaning and encoding beside the plain way, and what more text costs."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.measure import Outcome, alternate, job
from bench.rows import Goal, Job, Measured, Row, Side
from bukva.base.errors import BukvaError

RUNS = 3
GROWTH = (1, 4, 16)  # times the text of every sixteenth work, so that the largest is about RusLit
STEPS = ("clean", "tokenize", "split", "pairs")

# ---- jobs: each runs in a process of its own, and imports what it needs before its clock starts


def _download(corpus: str, raw: str) -> dict[str, Any]:
    from bukva.config.schema import Download
    from bukva.corpus.sources import download

    download(
        Download.model_validate({"corpus": corpus, "path": "data/sample", "url": "", "sha256": ""}),
        Path(raw),
        _ignore,
        _ignore,
    )
    return {}


def _clean(raw: str, clean: str) -> dict[str, Any]:
    import pandas as pd  # noqa: F401 - so that the clock does not see its import

    from bukva.corpus.cleaning import clean_collection
    from bukva.corpus.collection import read_table, read_texts

    target = _vacant(clean)
    started_at = time.perf_counter()
    counts = clean_collection(Path(raw), target, "notes")
    seconds = time.perf_counter() - started_at
    digest = _digest(text.encode() for _, text in read_texts(target, read_table(target)))
    return {"seconds": seconds, "chars": counts["chars"], "digest": digest}


def _clean_plainly(raw: str, clean: str) -> dict[str, Any]:
    from bench.plain.text import clean_lines

    target = _vacant(clean)
    started_at = time.perf_counter()
    for work in _works(raw):
        copy = target / work.relative_to(raw)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(clean_lines(work.read_text(encoding="utf-8")), encoding="utf-8")
    seconds = time.perf_counter() - started_at
    return {"seconds": seconds, "digest": _digest(work.read_bytes() for work in _works(target))}


def _tokenize(clean: str, tokens: str) -> dict[str, Any]:
    import pandas as pd  # noqa: F401 - so that the clock does not see its import

    from bukva.config.schema import Tokenize
    from bukva.tokenizers.encoding import tokenize

    target = _vacant(tokens)
    started_at = time.perf_counter()
    _, n_ids = tokenize(Path(clean), target, Tokenize(kind="char", vocabulary="all"), _split_params())
    seconds = time.perf_counter() - started_at
    with (target / "ids.npy").open("rb") as file:  # in pieces, for all at once would count as memory of ours
        file.seek(-n_ids, os.SEEK_END)  # past the header; an id of RusLit is a byte
        digest = _digest(iter(lambda: file.read(2**20), b""))
    return {"seconds": seconds, "chars": n_ids, "digest": digest}


def _tokenize_plainly(clean: str) -> dict[str, Any]:
    import torch

    from bench.plain.text import encode

    started_at = time.perf_counter()
    text = "".join(work.read_text(encoding="utf-8") for work in _works(clean))
    ids = encode(text, sorted(set(text)))
    seconds = time.perf_counter() - started_at
    return {"seconds": seconds, "digest": _digest([ids.to(torch.uint8).numpy().data])}


def _repeat(raw: str, target: str, times: int) -> dict[str, Any]:
    """Every sixteenth work of a collection, so many times under other names."""
    from bukva.corpus.collection import Document, read_table, read_texts, write_collection

    chosen = [*read_texts(Path(raw), read_table(Path(raw)).iloc[:: GROWTH[-1]])]
    copies = (
        (Document(document.category, document.author, f"{document.work}-{copy}"), text)
        for copy in range(times)
        for document, text in chosen
    )
    write_collection(Path(target), copies)
    return {}


def _split(clean: str, tokens: str, split: str) -> dict[str, Any]:
    import numpy as np
    import pandas as pd  # noqa: F401 - so that the clock does not see its import

    from bukva.corpus.collection import read_table
    from bukva.corpus.splits import report, save_splits, spans

    target = _vacant(split)
    started_at = time.perf_counter()
    table = read_table(Path(clean))
    parts = spans(table["chars"], _split_params())
    report(table, parts)
    save_splits(target, np.load(Path(tokens, "ids.npy"), mmap_mode="r"), parts)
    return {"seconds": time.perf_counter() - started_at, "chars": int(table["chars"].sum())}


def _pairs(split: str, tokens: str) -> dict[str, Any]:
    from bukva.baselines.counts import count_pairs
    from bukva.corpus.splits import load_splits
    from bukva.tokenizers.char import CharTokenizer

    vocab_size = len(CharTokenizer.load(Path(tokens, "vocab.json")))
    started_at = time.perf_counter()
    pairs = [count_pairs(ids, vocab_size) for ids in load_splits(Path(split)).values()]
    return {"seconds": time.perf_counter() - started_at, "chars": sum(int(counts.sum()) + 1 for counts in pairs)}


def _ignore(*_: object) -> None:
    pass


def _split_params() -> Any:
    from bukva.config.schema import Split

    return Split(strategy="tail", train=0.9, val=0.05, test=0.05)


def _vacant(folder: str) -> Path:
    """A folder that is not there, as DVC leaves it to a stage."""
    shutil.rmtree(folder, ignore_errors=True)
    return Path(folder)


def _works(folder: str | Path) -> list[Path]:
    """The texts of a collection in the order of its table."""
    return sorted(Path(folder).rglob("*.txt"), key=lambda work: work.relative_to(folder).with_suffix("").parts)


def _digest(pieces: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


# ---- rows


def _raw(scratch: Path) -> Path:
    """RusLit as stage download leaves it, made once in a run."""
    if not (scratch / "raw").exists():
        job("download", corpus="ruslit", raw=scratch / "raw")
    return scratch / "raw"


def _cleaned(scratch: Path) -> Path:
    """RusLit as stage clean leaves it, made once in a run."""
    if not (scratch / "clean").exists():
        job("clean", raw=_raw(scratch), clean=scratch / "clean")
    return scratch / "clean"


def clean(scratch: Path) -> Measured:
    """Our cleaning beside the notes' rules line by line."""
    raw = _raw(scratch)
    return _beside(
        lambda: job("clean", raw=raw, clean=scratch / "clean"),
        lambda: job("clean-plainly", raw=raw, clean=scratch / "clean-plainly"),
    )


def tokenize(scratch: Path) -> Measured:
    """Our encoding beside a dictionary."""
    cleaned = _cleaned(scratch)
    return _beside(
        lambda: job("tokenize", clean=cleaned, tokens=scratch / "tokens"),
        lambda: job("tokenize-plainly", clean=cleaned),
    )


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
        notes=(f"growth: seconds for a million characters and peak memory at {sizes} million characters", *notes),
        details={"times": GROWTH, "seconds_per_million_chars": costs, "peak_mb": peaks},
    )


def _beside(ours: Any, theirs: Any) -> Measured:
    """Both sides in turn, by the seconds of the work alone.

    Raises:
        BukvaError: they do not come to the same.
    """
    mine, others = alternate(RUNS, ours, theirs)
    if len({outcome.values["digest"] for outcome in [*mine, *others]}) > 1:
        raise BukvaError("bench: both sides should give the same bytes, and do not; a time of that compares nothing.")
    our_side, their_side = Side.of(mine, "seconds"), Side.of(others, "seconds")
    scores = {"ratio": their_side.median / our_side.median, "memory": our_side.peak_bytes / 1e6}
    return Measured(scores, our_side, their_side)


def _steps(scratch: Path, times: int) -> dict[str, Outcome]:
    """Each step on the text repeated so many times."""
    folder = scratch / f"growth-{times}"
    raw, cleaned, tokens, split = (folder / name for name in ("raw", "clean", "tokens", "split"))
    job("repeat", raw=_raw(scratch), target=raw, times=times)
    return {
        "clean": job("clean", raw=raw, clean=cleaned),
        "tokenize": job("tokenize", clean=cleaned, tokens=tokens),
        "split": job("split", clean=cleaned, tokens=tokens, split=split),
        "pairs": job("pairs", split=split, tokens=tokens),
    }


def _cost(outcome: Outcome) -> float:
    return float(outcome.values["seconds"] / outcome.values["chars"] * 1e6)


def _listed(values: list[float], digits: str) -> str:
    return ", ".join(format(value, digits) for value in values)


JOBS: dict[str, Job] = {
    "download": _download,
    "clean": _clean,
    "clean-plainly": _clean_plainly,
    "tokenize": _tokenize,
    "tokenize-plainly": _tokenize_plainly,
    "repeat": _repeat,
    "split": _split,
    "pairs": _pairs,
}
ROWS = (
    Row(
        "clean",
        "clean on RusLit",
        "s",
        (Goal("ratio", "x", 8, 15), Goal("memory", "MB", less_is_better=True)),
        clean,
        "the notes' rules line by line",
    ),
    Row(
        "tokenize",
        "tokenize on RusLit",
        "s",
        (Goal("ratio", "x", 15, 40), Goal("memory", "MB", 300, less_is_better=True)),
        tokenize,
        "dictionary look-up per character and torch.tensor",
    ),
    Row(
        "growth",
        "clean, tokenize, split and count pairs at 16x the text beside 1x, the worst of them",
        "s",
        (Goal("cost", "x", less_is_better=True), Goal("memory", "MB", less_is_better=True)),
        growth,
    ),
)
