"""Read the files of a result for its report page."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.compare.results import Result, as_checkout, read_results
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.evaluation.rows import Row, rows_of
from bukva.project.revisions import resolve
from bukva.project.stages import paths, trained_models
from bukva.report.charts import COLORS, MODELS
from bukva.text.collection import MISSING
from bukva.text.held_out import HeldOut
from bukva.text.scores import CharScores, files_of
from bukva.text.splits import load_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer

SPLIT = "val"  # the split of every comparison on a page, because comparisons on test are counted
# names in dvc.yaml of the outputs that a report page needs
NEEDED = ("score_table", "scores", "split", "tokens", "clean", "cleaning", "split_report", "answers")


def work_label(name: str) -> str:
    """Return the name of a work without the placeholders for missing parts, such as an unknown author."""
    return name.replace(f"{MISSING}/", "")


class Characters(NamedTuple):
    """The N scored characters of a split. Element i of an array of scores belongs to character i."""

    text: str
    work: npt.NDArray[np.int64]  # (N,), row number of the work of each character in the table of works


def read_characters(split: Path, tokens: Path, name: str) -> Characters:
    """Read the scored characters of the split `name` from the outputs of stages split and tokenize."""
    splits, tokenizer = load_splits(split), load_tokenizer(tokens)
    works = HeldOut(splits, load_lengths(split), tokenizer).passages(name, 1)
    texts = [tokenizer.decode(work.scored) for work in works]
    return Characters("".join(texts), np.repeat([work.work for work in works], list(map(len, texts))))


@dataclass(frozen=True, eq=False)
class Experiment:
    """The result of a revision or of the last run, with a folder that has its files at their paths in dvc.yaml."""

    result: Result
    folder: Path

    @classmethod
    @contextlib.contextmanager
    def opened(cls, name: str) -> Iterator["Experiment"]:
        """Open the result of an experiment, a branch, a tag, a commit, or "workspace" for a `with` block.

        Raises:
            BukvaError: the name is unknown, or a file is missing. The message says which command to run.
        """
        [result] = read_results([resolve(name)])
        trained = [path.as_posix() for model in trained_models().values() for path in (model.folder, model.curve)]
        with as_checkout(result, {*(paths()[each] for each in NEEDED), *trained}) as folder:
            for each in NEEDED:
                if not (folder / paths()[each]).exists():
                    raise BukvaError(f"{paths()[each]} does not exist. Run `make repro` to create it.")
            yield cls(result, folder)

    def path(self, name: str) -> Path:
        """Return the path of the output that is called `name` in dvc.yaml."""
        return self.folder / paths()[name]

    def read(self, name: str) -> dict[str, Any]:
        """Read the JSON output that is called `name` in dvc.yaml."""
        return dict(read_json(self.path(name)))

    @cached_property
    def name(self) -> str:
        """Title of the result on pages."""
        return "The last run" if self.result.revision.is_workspace else self.result.revision.name

    @cached_property
    def table(self) -> dict[str, Any]:
        """Content of reports/scores.json."""
        return self.read("score_table")

    @cached_property
    def scores(self) -> CharScores:
        """Loss of each held-out character under each model."""
        return CharScores.read(files_of(self.path("scores")))

    @cached_property
    def characters(self) -> Characters:
        """Characters of SPLIT that were scored."""
        return read_characters(self.path("split"), self.path("tokens"), SPLIT)

    @cached_property
    def curves(self) -> dict[str, pd.DataFrame]:
        """Loss curve of each model, with one row per evaluation during training."""
        return {name: pd.read_csv(self.folder / model.curve) for name, model in trained_models().items()}

    @cached_property
    def rows(self) -> dict[str, Row]:
        """Scores of each model and baseline, by key in scores.json. The best score on SPLIT comes first."""
        rows = sorted(rows_of(self.table, trained_models()), key=lambda row: row.bits[SPLIT])
        return {row.key: row for row in rows}

    @cached_property
    def colors(self) -> dict[str, str]:
        """Color of each model and baseline on all charts, by key in scores.json."""
        return {key: MODELS.get(key, COLORS[row.kind]) for key, row in self.rows.items()}
