"""List and load the trained models of the last run, the last commit and all experiments."""

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from bukva.backends.device import prepare
from bukva.compare.results import Result, as_folder, read_results
from bukva.core.errors import BukvaError
from bukva.core.schema import Compute
from bukva.models.folder import COUNTED
from bukva.project.cache import cached_files
from bukva.project.lock import outputs
from bukva.project.revisions import WORKSPACE, experiments, head, resolve
from bukva.project.stages import trained_models
from bukva.serving.writer import Writer

NAMES = {WORKSPACE: "the last run", "HEAD": "the last commit"}
CACHED_MODELS = 4  # the playground shows two; the others stay loaded for users who switch between models


@dataclass(frozen=True)
class Choice:
    """A trained model that users can choose in the playground. Two choices are equal if they have the same model."""

    digest: str  # of the model's folder
    is_without_ngrams: bool  # whether a GPT with n-grams is used without them
    key: str = field(compare=False)  # EXPERIMENT/MODEL, or EXPERIMENT/MODEL/alone for a GPT without its n-grams
    experiment: str = field(compare=False)
    label: str = field(compare=False)
    bits: float | None = field(compare=False)  # bits per character on val, if they are known
    files: Mapping[str, Path] = field(compare=False)  # paths of the files of the model's folder, by file name


class Library:
    """The trained models, loaded on first use."""

    def __init__(self, compute: Compute) -> None:
        self._machine = prepare(compute)
        self._known: dict[str, Choice] = {}
        self._cached_writer = lru_cache(CACHED_MODELS)(self._load_writer)
        self._lock = threading.Lock()

    def choices(self) -> list[Choice]:
        """Return all models whose files are available, without duplicates.

        The models of the last run come first, then those that were scored on the same val text, then those of other
        texts. Within these groups, the best GPT comes first.

        Raises:
            BukvaError: no model is available.
        """
        own = map(resolve, [WORKSPACE, "HEAD"] if head() else [WORKSPACE])
        known = read_results([*own, *experiments()])
        text = next((_text(result) for result in known if result.scores), "")

        def place(result: Result) -> tuple[bool, bool, float]:
            return not result.revision.is_workspace, _text(result) != text, _bits(result, "gpt") or math.inf

        results = sorted(known, key=place)
        choices = list(dict.fromkeys(choice for result in results for choice in _choices_of(result)))
        if not choices:
            raise BukvaError(
                "There are no trained models. Run `make repro` to train them, or `dvc pull` to fetch them."
            )
        self._known = {choice.key: choice for choice in choices}
        return choices

    def writer(self, key: str) -> Writer:
        """Return a Writer for the model with a `key` of the last `choices`.

        BukvaError is raised if the key is unknown, or if the files of the model are missing or inconsistent.
        """
        if key not in self._known:
            raise BukvaError(f"Model {key} is not available. Reload the page to see the available models.")
        with self._lock:  # both columns of the page may request the same model at the same time
            return self._cached_writer(self._known[key])

    def _load_writer(self, choice: Choice) -> Writer:
        with as_folder(choice.files) as folder:
            writer = Writer.load(folder, self._machine)
        return writer.without_ngrams() if choice.is_without_ngrams else writer


def _text(result: Result) -> str:
    return str(result.about["text"]["val"]) if result.scores else ""


def _choices_of(result: Result) -> Iterator[Choice]:
    name = NAMES.get(result.revision.name, result.revision.name)
    for model in reversed(trained_models().values()):  # the GPT first
        digest = outputs(result.lock).get(model.folder.as_posix(), "")
        key = f"{result.revision.name}/{model.name}"
        if files := cached_files(digest):
            yield Choice(digest, False, key, name, model.label, _bits(result, model.name), files)
            if COUNTED in files:
                yield Choice(digest, True, f"{key}/alone", name, f"{model.label} without its n-grams", None, files)


def _bits(result: Result, model: str) -> float | None:
    return result.metrics.get(model, {}).get("val")
