"""Rows of the text: cleaning, tokenizing and counting RusLit. And the corpora that rows measure on."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.clone import params_with
from bench.measure import Outcome, in_turn, job
from bench.rows import Job, Line
from bukva.core.errors import BukvaError

RUNS = 5
ORDER = 8  # of the n-grams that are counted

# ---- jobs: each runs in a process of its own, and imports what it needs before its clock starts


def _clean(raw: str, clean: str) -> dict[str, Any]:
    import pandas as pd  # noqa: F401 - so that its import is not timed

    from bukva.corpus.cleaning.clean import clean_collection
    from bukva.corpus.cleaning.rule_sets import rule_set
    from bukva.text.collection import TEXT
    from bukva.text.utf8 import decoded, encoded

    rules, target = rule_set("notes"), without_folder(clean)
    encoded(rules.apply(decoded(b"\n")).codes)  # loads machine code, which is kept as imports are
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
    from bukva.text.utf8 import alphabet, decoded

    target = without_folder(tokens)
    alphabet([decoded(b"\n")])  # loads machine code, which is kept as imports are
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
    """Section split of params.yaml, without the search for duplicates, which the plain side does not do."""
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


def _download(corpus: str, raw: str) -> dict[str, Any]:
    from bukva.config.schema import Download
    from bukva.corpus.sources.download import download

    params = Download.model_validate(params_with({"download": {"corpus": corpus}})["download"])
    download(params, Path(raw), _ignore, _ignore)
    return {}


def _ignore(*_: object) -> None:
    pass


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


JOBS: dict[str, Job] = {
    "download": _download,
    "clean": _clean,
    "clean-plain": _clean_plain,
    "tokenize": _tokenize,
    "tokenize-plain": _tokenize_plain,
    "count": _count,
}

# ---- corpora


def fetched(scratch: Path, name: str) -> Path:
    """A corpus as stage download writes it; made once in a run.

    Raises:
        BukvaError: it cannot be downloaded; names the file, and BUKVA_MIRROR as another way to provide it.
    """
    folder = scratch / name
    if not folder.exists():
        job("download", corpus=name, raw=folder)
    return folder


def cleaned(scratch: Path) -> Path:
    """RusLit as stage clean writes it; made once in a run."""
    folder = scratch / "clean"
    if not folder.exists():
        job("clean", raw=fetched(scratch, "ruslit"), clean=folder)
    return folder


# ---- rows


def clean(scratch: Path) -> list[Line]:
    """Seconds of cleaning RusLit, beside the rules of the lecture notes, line by line."""
    raw = fetched(scratch, "ruslit")
    ours, plain = _compared(
        lambda _: job("clean", raw=raw, clean=scratch / "clean"),
        lambda _: job("clean-plain", raw=raw, clean=scratch / "clean-plain"),
    )
    what = "cleaning RusLit; plain: the rules of the lecture notes, line by line"
    return [Line(what, "s", _seconds(ours), _seconds(plain), 10.0)]


def tokenize(scratch: Path) -> list[Line]:
    """Seconds of tokenizing RusLit, beside a look-up per character in a dictionary."""
    folder = cleaned(scratch)
    ours, plain = _compared(
        lambda _: job("tokenize", clean=folder, tokens=scratch / "tokens"),
        lambda _: job("tokenize-plain", clean=folder),
    )
    what = "tokenizing RusLit; plain: a look-up per character in a dictionary, and torch.tensor"
    return [
        Line(what, "s", _seconds(ours), _seconds(plain), 15.0),
        Line("its memory", "MB", _megabytes(ours), [], 300.0),
    ]


def counting(scratch: Path) -> list[Line]:
    """Seconds of counting all n-grams up to order 8 of nine tenths of RusLit."""
    ours = [job("count", clean=cleaned(scratch)) for _ in range(RUNS)]
    what = f"counting all n-grams up to order {ORDER} of nine tenths of RusLit"
    return [
        Line(what, "s", _seconds(ours), [], 20.0),
        Line("its memory, the text included", "MB", _megabytes(ours), [], 2000.0),
    ]


def _compared(ours: Callable[[int], Outcome], plain: Callable[[int], Outcome]) -> list[list[Outcome]]:
    """Both sides in turn.

    Raises:
        BukvaError: their outputs differ.
    """
    sides = in_turn(RUNS, ours, plain)
    if len({outcome.values["digest"] for side in sides for outcome in side}) > 1:
        raise BukvaError("the outputs of both sides differ, so their times cannot be compared.")
    return sides


def _seconds(outcomes: list[Outcome]) -> list[float]:
    """Of the work alone, without the start of the process."""
    return [outcome.values["seconds"] for outcome in outcomes]


def _megabytes(outcomes: list[Outcome]) -> list[float]:
    return [outcome.peak_bytes / 1e6 for outcome in outcomes]
