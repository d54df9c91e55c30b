"""Rows of the text: cleaning and tokenizing RusLit."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.corpora import cleaned, fetched
from bench.measure import Outcome, alternate, job
from bench.rows import Goal, Job, Measured, Row, Side
from bukva.core.errors import BukvaError

RUNS = 3

# ---- jobs: each runs in a process of its own, and imports what it needs before its clock starts


def _clean(raw: str, clean: str) -> dict[str, Any]:
    import pandas as pd  # noqa: F401 - so that its import is not timed

    from bukva.corpus.cleaning.clean import clean_collection
    from bukva.corpus.cleaning.rule_sets import rule_set
    from bukva.text.collection import TEXT

    rules, target = rule_set("notes"), without_folder(clean)
    rules.apply("\n")  # loads machine code, which is kept as imports are
    started_at = time.perf_counter()
    report = clean_collection(Path(raw), target, rules, "as the bench says")
    seconds = time.perf_counter() - started_at
    digest = _digest([(target / TEXT).read_bytes()])
    return {"seconds": seconds, "chars": report["chars"], "digest": digest}


def _clean_plain(raw: str, clean: str) -> dict[str, Any]:
    import pandas as pd  # noqa: F401 - so that its import is not timed

    from bench.plain.text import clean_lines
    from bukva.text.collection import TEXT, read_table, read_texts

    target = without_folder(clean)
    target.mkdir()
    started_at = time.perf_counter()
    texts = ("".join(pieces) for _, pieces in read_texts(Path(raw), read_table(Path(raw))))
    with (target / TEXT).open("w", encoding="utf-8") as file:
        file.writelines(clean_lines(text) for text in texts)
    seconds = time.perf_counter() - started_at
    return {"seconds": seconds, "digest": _digest([(target / TEXT).read_bytes()])}


def _tokenize(clean: str, tokens: str) -> dict[str, Any]:
    import pandas as pd  # noqa: F401 - so that its import is not timed

    from bukva.config.schema import Tokenize
    from bukva.corpus.splits.encoding import tokenize

    target = without_folder(tokens)
    started_at = time.perf_counter()
    characters = Tokenize(kind="char", vocabulary="all", unknown="error", vocab_size=257)
    n_ids = tokenize(Path(clean), target, characters, split_params()).n_ids
    seconds = time.perf_counter() - started_at
    with (target / "ids.npy").open("rb") as file:  # in pieces, because all at once would count as our memory
        file.seek(-n_ids, os.SEEK_END)  # past the header; an id of RusLit is a byte
        digest = _digest(iter(lambda: file.read(2**20), b""))
    return {"seconds": seconds, "chars": n_ids, "digest": digest}


def _tokenize_plain(clean: str) -> dict[str, Any]:
    import torch

    from bench.plain.text import encode
    from bukva.text.collection import TEXT

    started_at = time.perf_counter()
    text = (Path(clean) / TEXT).read_text(encoding="utf-8")
    ids = encode(text, sorted(set(text)))
    seconds = time.perf_counter() - started_at
    return {"seconds": seconds, "digest": _digest([ids.to(torch.uint8).numpy().data])}


def split_params() -> Any:
    """Section split of params.yaml, with its default values."""
    from bukva.config.schema import Split

    return Split(strategy="tail", duplicates="keep", duplicate_chars=60, train=0.9, val=0.05, test=0.05)


def without_folder(folder: str) -> Path:
    """The path of a folder that does not exist, as for a stage that DVC runs."""
    shutil.rmtree(folder, ignore_errors=True)
    return Path(folder)


def _digest(pieces: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


# ---- rows


def clean(scratch: Path) -> Measured:
    """Our cleaning, and the same rules line by line."""
    raw = fetched(scratch, "ruslit")
    return _compare(
        lambda: job("clean", raw=raw, clean=scratch / "clean"),
        lambda: job("clean-plain", raw=raw, clean=scratch / "clean-plain"),
    )


def tokenize(scratch: Path) -> Measured:
    """Our encoding, and a dictionary."""
    folder = cleaned(scratch)
    return _compare(
        lambda: job("tokenize", clean=folder, tokens=scratch / "tokens"),
        lambda: job("tokenize-plain", clean=folder),
    )


def _compare(ours: Callable[[], Outcome], plain: Callable[[], Outcome]) -> Measured:
    """Both sides in turn, by the seconds of the work alone.

    Raises:
        BukvaError: their outputs differ.
    """
    our_outcomes, plain_outcomes = alternate(RUNS, ours, plain)
    if len({outcome.values["digest"] for outcome in [*our_outcomes, *plain_outcomes]}) > 1:
        raise BukvaError("the outputs of both sides differ, so their times cannot be compared.")
    our_side, plain_side = Side.of(our_outcomes, "seconds"), Side.of(plain_outcomes, "seconds")
    scores = {"ratio": plain_side.median / our_side.median, "memory": our_side.peak_bytes / 1e6}
    return Measured(scores, our_side, plain_side)


JOBS: dict[str, Job] = {
    "clean": _clean,
    "clean-plain": _clean_plain,
    "tokenize": _tokenize,
    "tokenize-plain": _tokenize_plain,
}
ROWS = (
    Row(
        "clean",
        "cleaning RusLit",
        "s",
        (Goal("ratio", "x", 8, 15), Goal("memory", "MB", less_is_better=True)),
        clean,
        "the rules of the lecture notes, line by line",
    ),
    Row(
        "tokenize",
        "tokenizing RusLit",
        "s",
        (Goal("ratio", "x", 15, 40), Goal("memory", "MB", 300, less_is_better=True)),
        tokenize,
        "a dictionary look-up per character, and torch.tensor",
    ),
)
