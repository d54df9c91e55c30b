"""Which trained models there are to write with: those of the last run, of the commit and of all experiments."""

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from bukva.backends.device import prepare
from bukva.compare.results import Result, as_folder, read_results
from bukva.config.schema import Compute
from bukva.core.errors import BukvaError
from bukva.models.folder import COUNTED
from bukva.project.cache import cached_files
from bukva.project.lock import outputs
from bukva.project.revisions import WORKSPACE, experiments, head, resolve
from bukva.project.stages import paths, trained_models
from bukva.serving.learning import Learner
from bukva.serving.writer import Writer

NAMES = {WORKSPACE: "the last run", "HEAD": "the last commit"}
IN_MEMORY = 4  # models that stay loaded: two side by side, and those that one changes between


@dataclass(frozen=True)
class Choice:
    """A model that somebody may write with; two are equal if they write the same."""

    digest: str  # of the model's folder
    alone: bool  # the network without its n-grams
    key: str = field(compare=False)  # experiment/model, or experiment/model/alone
    experiment: str = field(compare=False)  # as the page calls it
    label: str = field(compare=False)  # the model, as the page calls it
    bits: float | None = field(compare=False)  # per character on val, if they are known
    files: Mapping[str, Path] = field(compare=False)  # of the folder, by their names in it
    train: Path | None = field(compare=False, default=None)  # its ids, if it can learn and they are here


class Library:
    """The models, loaded when they are first used, on the device that section compute of params.yaml wants."""

    def __init__(self, compute: Compute) -> None:
        self._machine = prepare(compute)
        self._known: dict[str, Choice] = {}
        self._load = lru_cache(IN_MEMORY)(self._loaded)
        self._learner = lru_cache(IN_MEMORY)(self._learning)
        self._lock = threading.Lock()

    def choices(self) -> list[Choice]:
        """All models whose files are here now: the last run first, then by text and by the GPT's score on val.

        The text of the first result comes first, because scores on different texts cannot be compared. Equal models
        are there once.

        Raises:
            BukvaError: there is none.
        """
        own = map(resolve, [WORKSPACE, "HEAD"] if head() else [WORKSPACE])
        known = read_results([*own, *experiments()])
        text = next((_text(result) for result in known if result.scores), "")
        results = sorted(known, key=lambda result: _place(result, text))
        found = list(dict.fromkeys(choice for result in results for choice in _choices_of(result)))
        if not found:
            raise BukvaError("play: no trained model is here; run `make repro`, or `dvc pull` to fetch one.")
        self._known = {choice.key: choice for choice in found}
        return found

    def writer(self, key: str) -> Writer:
        """The model of a choice, as it was when choices were last asked for.

        Raises:
            BukvaError: there is none of this key, or its files are gone or do not fit each other.
        """
        if key not in self._known:
            raise BukvaError(f"{key}: no such model is here; reload the page for those that are.")
        with self._lock:  # two columns may ask for one model at once
            return self._load(self._known[key])

    def learner(self, key: str) -> Learner | None:
        """The same, as it learns; None for a model that cannot, or whose train is not here.

        Raises:
            BukvaError: as of `writer`.
        """
        writer = self.writer(key)
        with self._lock:
            return self._learner(self._known[key], writer)

    @staticmethod
    def _learning(choice: Choice, writer: Writer) -> Learner | None:
        return Learner(writer, np.load(choice.train, mmap_mode="r")) if choice.train else None

    def _loaded(self, choice: Choice) -> Writer:
        with as_folder(choice.files) as folder:
            writer = Writer.load(folder, self._machine)
        return writer.without_ngrams() if choice.alone else writer


def _place(result: Result, text: str) -> tuple[bool, bool, float]:
    score = _bits(result, "gpt")
    return not result.revision.is_workspace, _text(result) != text, math.inf if score is None else score


def _text(result: Result) -> str:
    """Return the digest of its val; "" where its scores are not here."""
    return str(result.about["text"]["val"]) if result.scores else ""


def _choices_of(result: Result) -> Iterator[Choice]:
    name = NAMES.get(result.revision.name, result.revision.name)
    splits = cached_files(outputs(result.lock).get(paths()["split"], ""))
    for model in reversed(trained_models().values()):  # the GPT first
        digest = outputs(result.lock).get(model.folder.as_posix(), "")
        key = f"{result.revision.name}/{model.name}"
        if files := cached_files(digest):
            train = splits.get("train.npy") if model.name == "gpt" else None
            yield Choice(digest, False, key, name, model.label, _bits(result, model.name), files, train)
            if COUNTED in files:
                yield Choice(digest, True, f"{key}/alone", name, f"{model.label} without its n-grams", None, files)


def _bits(result: Result, model: str) -> float | None:
    return result.metrics.get(model, {}).get("val")
