"""Row `counting`, which counts the n-grams of RusLit, and the corpora that several rows use."""

import time
from pathlib import Path
from typing import Any

from bench.clone import params_with
from bench.measure import job
from bench.rows import Job, Line

RUNS = 5
ORDER = 8  # length of the longest n-grams that are counted

# ---- jobs: each runs in a separate process, and imports its modules before its clock starts


def _download(corpus: str, raw: str) -> dict[str, Any]:
    from bukva.config.schema import Download
    from bukva.corpus.sources.download import download

    params = Download.model_validate(params_with({"download": {"corpus": corpus}})["download"])
    download(params, Path(raw), _ignore, _ignore)
    return {}


def _ignore(*_: object) -> None:
    pass


def _clean(raw: str, clean: str) -> dict[str, Any]:
    from bukva.corpus.cleaning.clean import clean_collection
    from bukva.corpus.cleaning.rule_sets import rule_set

    clean_collection(Path(raw), Path(clean), rule_set("notes"), "as the bench says")
    return {}


def _count(clean: str) -> dict[str, Any]:
    from bukva.models.ngrams.kneser_ney import KneserNey
    from bukva.text.collection import TEXT
    from bukva.text.tokenizers.char import CharTokenizer

    text = (Path(clean) / TEXT).read_text(encoding="utf-8")
    tokenizer = CharTokenizer.train([text])
    ids = tokenizer.encode(text)[: len(text) * 9 // 10]
    del text
    started_at = time.perf_counter()
    KneserNey.count(ids, len(tokenizer), ORDER)
    return {"seconds": time.perf_counter() - started_at}


JOBS: dict[str, Job] = {"download": _download, "clean": _clean, "count": _count}

# ---- corpora


def fetched(scratch: Path, name: str) -> Path:
    """Return the folder of a corpus as stage download writes it. The corpus is downloaded once per run of the bench.

    Raises:
        BukvaError: the download failed; the message names the file and explains BUKVA_MIRROR.
    """
    folder = scratch / name
    if not folder.exists():
        job("download", corpus=name, raw=folder)
    return folder


def cleaned(scratch: Path) -> Path:
    """Return the folder of RusLit as stage clean writes it. The corpus is cleaned once per run of the bench."""
    folder = scratch / "clean"
    if not folder.exists():
        job("clean", raw=fetched(scratch, "ruslit"), clean=folder)
    return folder


# ---- row


def counting(scratch: Path) -> list[Line]:
    """Time counting all n-grams up to order 8 in nine tenths of RusLit."""
    ours = [job("count", clean=cleaned(scratch)) for _ in range(RUNS)]
    what = f"count all n-grams up to order {ORDER} in nine tenths of RusLit"
    return [
        Line(what, "s", [outcome.values["seconds"] for outcome in ours], [], 20.0),
        Line("peak memory, including the text", "MB", [outcome.peak_bytes / 1e6 for outcome in ours], [], 2000.0),
    ]
