"""The texts that rows measure on, each made once in a run; jobs and rows of other modules use them."""

from pathlib import Path
from typing import Any

from bench.measure import ROOT, job
from bench.rows import Job
from bukva.core.errors import BukvaError

_failures: dict[Path, BukvaError] = {}


def fetched(scratch: Path, name: str) -> Path:
    """A corpus as stage download writes it. A download that failed is not repeated.

    Raises:
        BukvaError: it cannot be downloaded; names the file, and BUKVA_MIRROR as another way to provide it.
    """
    folder = scratch / name
    if folder in _failures:
        raise _failures[folder]
    if not folder.exists():
        try:
            job("download", corpus=name, raw=folder)
        except BukvaError as error:
            _failures[folder] = error
            raise
    return folder


def cleaned(scratch: Path) -> Path:
    """RusLit as stage clean writes it.

    Raises:
        BukvaError: it cannot be downloaded.
    """
    folder = scratch / "clean"
    if not folder.exists():
        job("clean", raw=fetched(scratch, "ruslit"), clean=folder)
    return folder


def load_tinyshakespeare(raw: str) -> tuple[Any, Any]:
    """The ids of the first nine tenths and of the rest."""
    from bukva.text.collection import read_table, read_texts
    from bukva.text.tokenizers.char import CharTokenizer

    text = "".join(piece for _, pieces in read_texts(Path(raw), read_table(Path(raw))) for piece in pieces)
    ids = CharTokenizer.train([text]).encode(text)
    n_train = int(0.9 * len(ids))
    return ids[:n_train], ids[n_train:]


def _download(corpus: str, raw: str) -> dict[str, Any]:
    from bukva.config.load import PARAMS, read_yaml
    from bukva.config.schema import Download
    from bukva.corpus.sources.download import download

    params = Download.model_validate(read_yaml(ROOT / PARAMS)["download"] | {"corpus": corpus})
    download(params, Path(raw), _ignore, _ignore)
    return {}


def _ignore(*_: object) -> None:
    pass


JOBS: dict[str, Job] = {"download": _download}
