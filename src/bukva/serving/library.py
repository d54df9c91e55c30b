"""Which trained models there are to write with: those of the last run, of the commit and of all experiments."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bukva.compare.results import Result, as_folder, digest_of, read_results
from bukva.config.schema import Compute
from bukva.core.errors import BukvaError
from bukva.models.device import prepare
from bukva.project.cache import cached_files
from bukva.project.revisions import WORKSPACE, experiments, head, resolve
from bukva.project.stages import TrainedModel, trained_models
from bukva.serving.writer import Writer
from bukva.text.ids import bits

NAMES = {WORKSPACE: "the last run", "HEAD": "the last commit"}
SPLIT = "val"
IN_MEMORY = 4  # models that stay loaded: two side by side, and those that one changes between

Identity = tuple[str, bool]  # the digest of a model's folder, and whether it is without its n-grams


@dataclass(frozen=True, eq=False)
class Choice:
    """A model that somebody may write with.

    key: experiment/model, or experiment/model/alone for a network without its n-grams.
    bits: per character on val; None if its experiment was not evaluated.
    """

    key: str
    label: str
    bits: float | None
    result: Result
    model: TrainedModel
    alone: bool = False

    @property
    def experiment(self) -> str:
        """What the page calls its experiment."""
        name = self.result.revision.name
        return NAMES.get(name, name)

    @property
    def identity(self) -> Identity:
        """Equal for models that write the same."""
        return digest_of(self.result, self.model.name), self.alone


class Library:
    """The models, loaded when they are first used."""

    def __init__(self, compute: Compute) -> None:
        """Choose the device.

        Raises:
            BukvaError: this machine has none as section compute of params.yaml wants it.
        """
        self._machine = prepare(compute)
        self._known: dict[str, Choice] = {}
        self._loaded: OrderedDict[str, Writer] = OrderedDict()  # by the digest of the model's folder
        self._lock = threading.Lock()

    def choices(self) -> list[Choice]:
        """All models whose files are here now: the last run first, then by the GPT's score on val; equal ones once.

        Raises:
            BukvaError: there is none.
        """
        own = resolve([WORKSPACE, "HEAD"] if head() else [WORKSPACE])
        results = sorted(read_results([*own, *experiments()]), key=_place)
        found: dict[Identity, Choice] = {}
        for choice in (choice for result in results for choice in _choices_of(result)):
            found.setdefault(choice.identity, choice)
        if not found:
            raise BukvaError("play: no trained model is here; run `make repro`, or `dvc pull` to fetch one.")
        self._known = {choice.key: choice for choice in found.values()}
        return list(found.values())

    def writer(self, key: str) -> Writer:
        """The model of a choice, as it was when choices were last asked for.

        Raises:
            BukvaError: there is none of this key, or its files are gone or do not fit each other.
        """
        choice = self._known.get(key)
        if choice is None:
            raise BukvaError(f"{key}: no such model is here; reload the page for those that are.")
        digest = digest_of(choice.result, choice.model.name)
        with self._lock:  # two columns may ask for one model at once
            if digest not in self._loaded:
                self._loaded[digest] = self._load(choice)
                while len(self._loaded) > IN_MEMORY:
                    self._loaded.popitem(last=False)
            self._loaded.move_to_end(digest)
            whole = self._loaded[digest]
        return whole.alone() if choice.alone else whole

    def _load(self, choice: Choice) -> Writer:
        files = cached_files(digest_of(choice.result, choice.model.name))
        if not files:
            raise BukvaError(f"{choice.key}: its files are no longer here; reload the page for the models that are.")
        with as_folder(files) as folder:
            return Writer.load(folder, self._machine)


def _place(result: Result) -> tuple[bool, float, str]:
    score = _bits(result, "gpt")
    return not result.revision.is_workspace, float("inf") if score is None else score, result.revision.name


def _choices_of(result: Result) -> Iterator[Choice]:
    for model in reversed(trained_models().values()):  # the GPT first
        if cached_files(digest_of(result, model.name)):
            key = f"{result.revision.name}/{model.name}"
            yield Choice(key, model.label, _bits(result, model.name), result, model)
            if model.name == "gpt" and result.params.get("model", {}).get("ngrams", "none") != "none":
                label = f"{model.label} without its n-grams"
                yield Choice(f"{key}/alone", label, _bits(result, "network"), result, model, alone=True)


def _bits(result: Result, row: str) -> float | None:
    if row in result.metrics:
        return float(result.metrics[row][SPLIT])
    file = result.scores.get(f"{row}/{SPLIT}.npy")  # the headline has no network without its n-grams
    return bits(np.load(file).mean(dtype=np.float64)) if file else None
