"""What the report page is made of: the files of the last run in the checkout."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from bukva.anatomy.characters import Characters, read_characters
from bukva.base.errors import BukvaError
from bukva.base.files import read_json
from bukva.config.load import read_params
from bukva.config.schema import Params
from bukva.corpus.collection import MISSING
from bukva.experiments.results import Result, read_results
from bukva.experiments.revisions import WORKSPACE, resolve
from bukva.pipeline.stages import paths, trained_models
from bukva.report.page.charts import COLOURS, MODELS
from bukva.report.rows import Row, rows_of
from bukva.scoring.characters import CharScores, files_of

NEEDED = ("score_table", "scores", "split", "tokens", "clean", "cleaning", "split_report", "answers")


def work_label(name: str) -> str:
    """The name of a work (Document.name) without what is not given of it."""
    return name.replace(f"{MISSING}/", "")


@dataclass(frozen=True, eq=False)
class Experiment:
    """The last run of the pipeline in this checkout.

    table: reports/scores.json.
    cleaning, split, answers: the JSON files of these stages.
    scores: of every held-out character.
    result: what git and DVC know of it.
    """

    params: Params
    table: dict[str, Any]
    cleaning: dict[str, Any]
    split: dict[str, Any]
    answers: dict[str, Any]
    scores: CharScores
    result: Result

    @classmethod
    def read(cls) -> "Experiment":
        """The files of the checkout.

        Raises:
            BukvaError: a file is missing; names it and the command that makes it.
        """
        named = {name: Path(paths()[name]) for name in NEEDED}
        for path in named.values():
            if not path.exists():
                raise BukvaError(f"{path}: is missing, so there is nothing to report; run `make repro`.")
        return cls(
            params=read_params(),
            table=read_json(named["score_table"]),
            cleaning=read_json(named["cleaning"]),
            split=read_json(named["split_report"]),
            answers=read_json(named["answers"]),
            scores=CharScores.read(files_of(named["scores"])),
            result=read_results(resolve([WORKSPACE]))[0],
        )

    @property
    def held_out(self) -> str:
        """The split of the headline: test, or val if there is no test."""
        return list(self.table["gpt"])[-1]

    @cached_property
    def rows(self) -> list[Row]:
        """Models and baselines, the best on the held-out split first."""
        return sorted(rows_of(self.table, trained_models()), key=lambda row: row.bits[self.held_out])

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
        window = self.table["window"]
        return read_characters(
            Path(paths()["split"]), Path(paths()["tokens"]), split, window["length"], window["stride"]
        )

    @cached_property
    def curves(self) -> dict[str, pd.DataFrame]:
        """model -> its losses by step."""
        return {name: pd.read_csv(model.curve) for name, model in trained_models().items()}
