"""Row of counting: all n-grams of RusLit."""

import time
from pathlib import Path
from typing import Any

from bench.corpora import cleaned
from bench.measure import job
from bench.rows import Goal, Job, Measured, Row, Side

ORDER = 8
RUNS = 3
SHARE = 0.9  # of the text, as much as train is by default


def _count_ruslit(clean: str) -> dict[str, Any]:
    from bukva.models.ngrams.kneser_ney import KneserNey
    from bukva.text.collection import TEXT
    from bukva.text.tokenizers.char import CharTokenizer

    text = (Path(clean) / TEXT).read_text(encoding="utf-8")
    tokenizer = CharTokenizer.train([text])
    ids = tokenizer.encode(text)[: int(SHARE * len(text))]
    del text
    started_at = time.perf_counter()
    grams = KneserNey.count(ids, len(tokenizer), ORDER).trie.symbols
    return {"seconds": time.perf_counter() - started_at, "chars": len(ids), "grams": len(grams) - 1}


def counting(scratch: Path) -> Measured:
    """Runs in a row, each in a process of its own; the peak includes the text."""
    outcomes = [job("count-ruslit", clean=cleaned(scratch)) for _ in range(RUNS)]
    side, values = Side.of(outcomes, "seconds"), outcomes[0].values
    return Measured(
        {"seconds": side.median, "memory": side.peak_bytes / 1e6},
        side,
        notes=(f"counting: {values['grams']:,} different n-grams in {values['chars']:,} characters",),
    )


JOBS: dict[str, Job] = {"count-ruslit": _count_ruslit}
ROWS = (
    Row(
        "counting",
        f"counting all n-grams of orders 1 to {ORDER} of nine tenths of RusLit",
        "s",
        (Goal("seconds", "s", 20, 8, less_is_better=True), Goal("memory", "MB", 2000, less_is_better=True)),
        counting,
    ),
)
