"""What the report page is made of: the files of one result."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bukva.compare.results import Result, as_checkout, read_results
from bukva.config.load import parse_params
from bukva.config.schema import Params
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.evaluation.rows import Row, rows_of
from bukva.interpret.characters import Characters, read_characters
from bukva.project.revisions import resolve
from bukva.project.stages import paths, trained_models
from bukva.report.charts import COLOURS, MODELS
from bukva.text.collection import MISSING
from bukva.text.scores import CharScores, files_of

SPLIT = "val"  # of everything that a page says: pages stand side by side, and each look at test is counted
NEEDED = ("score_table", "scores", "split", "tokens", "clean", "cleaning", "split_report", "answers")


def work_label(name: str) -> str:
    """The name of a work (Document.name) without what is not given of it."""
    return name.replace(f"{MISSING}/", "")


@dataclass(frozen=True, eq=False)
class Experiment:
    """One result: that of the last run in this checkout, or of a revision.

    folder: has its files, under the paths of dvc.yaml.
    table: reports/scores.json.
    cleaning, split, answers: the JSON files of these stages.
    scores: of every held-out character.
    result: what git and DVC know of it.
    """

    folder: Path
    params: Params
    table: dict[str, Any]
    cleaning: dict[str, Any]
    split: dict[str, Any]
    answers: dict[str, Any]
    scores: CharScores
    result: Result

    @classmethod
    @contextlib.contextmanager
    def opened(cls, name: str) -> Iterator["Experiment"]:
        """The result of this name; it can be read while the block runs.

        Raises:
            BukvaError: nothing has this name, or a file is missing; names it and the command that makes it.
        """
        [result] = read_results(resolve([name]))
        trained = [path.as_posix() for model in trained_models().values() for path in (model.folder, model.curve)]
        with as_checkout(result, {*(paths()[each] for each in NEEDED), *trained}) as folder:
            yield cls._read(result, folder)

    @classmethod
    def _read(cls, result: Result, folder: Path) -> "Experiment":
        named = {name: folder / paths()[name] for name in NEEDED}
        for name, path in named.items():
            if not path.exists():
                raise BukvaError(f"{paths()[name]}: is missing, so there is nothing to report; run `make repro`.")
        return cls(
            folder=folder,
            params=parse_params(dict(result.params), f"params.yaml of {result.revision.name}"),
            table=read_json(named["score_table"]),
            cleaning=read_json(named["cleaning"]),
            split=read_json(named["split_report"]),
            answers=read_json(named["answers"]),
            scores=CharScores.read(files_of(named["scores"])),
            result=result,
        )

    def path(self, name: str) -> Path:
        """Where the output is that has this name in dvc.yaml."""
        return self.folder / paths()[name]

    @cached_property
    def rows(self) -> list[Row]:
        """Models and baselines, the best on val first."""
        return sorted(rows_of(self.table, trained_models()), key=lambda row: row.bits[SPLIT])

    @cached_property
    def labels(self) -> dict[str, str]:
        """key in scores.json -> what the page calls it."""
        return {row.key: row.label for row in self.rows}

    @cached_property
    def colours(self) -> dict[str, str]:
        """key in scores.json -> its colour on all charts."""
        return {row.key: MODELS.get(row.key, COLOURS[row.kind]) for row in self.rows}

    def colour_of(self, label: str, state: str) -> str:
        """The colour of a model by its label and state in the samples."""
        keys = {model.label: name for name, model in trained_models().items()}
        return self.colours["network" if state.endswith("without its n-grams") else keys[label]]

    def characters(self, split: str) -> Characters:
        """The scored characters of val or test."""
        return read_characters(self.path("split"), self.path("tokens"), split)

    @cached_property
    def curves(self) -> dict[str, pd.DataFrame]:
        """model -> its losses by step."""
        return {name: pd.read_csv(self.folder / model.curve) for name, model in trained_models().items()}
