"""Read and write scores per character: the loss in nats of every held-out character under each model and baseline.

Stage evaluate writes a folder of scores with the files below. Comparisons of experiments read only these files, so they
need neither the models nor torch. Stage baselines writes such a folder for the baselines. In that folder, about.json
contains the table of the baselines' scores.

about.json            scoring windows, alphabet, digests of the texts, calibration of the GPT, and for each trained
                      model its number of parameters and the arithmetic that it was trained with
works.csv             category, author, work, year, and the number of scored characters of the work in each split
<model>/<split>.npy   float32 (N,), the loss in nats of each scored character, works in the order of works.csv
"""

import csv
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.core.errors import BukvaError
from bukva.core.files import atomic_folder, read_json, write_json
from bukva.text.collection import Document
from bukva.text.ids import CharNats

ABOUT, WORKS = "about.json", "works.csv"
CONTEXT = "own work"  # about.json: the context of a scored character is text of the same work
AGAIN = "run `dvc repro -f evaluate`"


@dataclass(frozen=True)
class CharScores:
    """The scores per character of one experiment, read from a folder of scores.

    about: the content of about.json.
    works: the G works, in the order of works.csv.
    chars: (G,) number of scored characters of each work in a split, by name of the split.
    files: path of each file, by its name within the folder of scores.
    """

    about: dict[str, Any]
    works: list[Document]
    chars: dict[str, npt.NDArray[np.int64]]
    files: Mapping[str, Path]

    @classmethod
    def read(cls, files: Mapping[str, Path]) -> "CharScores":
        """Read about.json and works.csv of a folder of scores. The losses are not read before `nats` is called.

        Args:
            files: path of each file, by its name within the folder of scores. The paths can be in different folders.

        Raises:
            BukvaError: about.json or works.csv is missing, or is not what stage evaluate writes.
        """
        try:
            about = read_json(files[ABOUT])
            with files[WORKS].open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            works = [Document(row["category"], row["author"], row["work"], row["year"] or None) for row in rows]
            chars = {split: np.array([int(row[split]) for row in rows], np.int64) for split in about["text"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BukvaError(f"The scores per character cannot be read ({error!r}); {AGAIN}.") from None
        return cls(about, works, chars, files)

    def nats(self, model: str, split: str) -> CharNats:
        """Return the (N,) losses in nats of the scored characters of a split under a model, memory-mapped.

        Raises:
            BukvaError: the file does not exist or is not complete.
        """
        name = f"{model}/{split}.npy"
        try:
            return np.load(self.files[name], mmap_mode="r").reshape(int(self.chars[split].sum()))
        except (OSError, ValueError, KeyError) as error:
            raise BukvaError(f"{name}: cannot be read ({error}); {AGAIN}.") from None


@dataclass(frozen=True)
class Baselines:
    """Results of stage baselines.

    table: bits per character, by name of the split and then by name of the baseline. For `train`, it contains only
        baselines that are fitted to the training split.
    best: name of the n-gram baseline with the fewest bits per character on val.
    nats: (N,) losses in nats of the held-out characters, by name of the baseline and then by name of the split.
        Compressors are not included.
    """

    table: dict[str, dict[str, float]]
    best: str
    nats: dict[str, dict[str, CharNats]]

    def to_json(self) -> dict[str, Any]:
        """Return the part of the results that about.json stores: everything except the losses in `nats`."""
        return {"table": self.table, "best_counted": self.best, "order": list(self.nats)}

    @classmethod
    def load(cls, saved: CharScores) -> "Baselines":
        """Load the results of stage baselines from the scores that this stage saved."""
        nats = {name: {split: saved.nats(name, split) for split in saved.chars} for name in saved.about["order"]}
        return cls(saved.about["table"], saved.about["best_counted"], nats)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the path of each file in a folder and its subfolders, by its name within the folder.

    `CharScores.read` takes such a dict.
    """
    return {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}


def save_scores(
    folder: Path,
    about: dict[str, Any],
    works: list[Document],
    chars: dict[str, npt.NDArray[np.int64]],
    nats: dict[str, dict[str, CharNats]],
) -> None:
    """Write a folder of scores. The folder appears only when it is complete.

    Args:
        folder: the folder to write.
        about: the content of about.json.
        works: the G works.
        chars: (G,) number of scored characters of each work in a split, by name of the split.
        nats: (N,) losses in nats of the scored characters, by name of the model and then by name of the split.
    """
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / ABOUT, about)
        with (unfinished / WORKS).open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["category", "author", "work", "year", *chars])
            for work, counts in zip(works, zip(*chars.values(), strict=True), strict=True):
                table.writerow([*astuple(work), *map(int, counts)])
        for model, scored in nats.items():
            (unfinished / model).mkdir()
            for split, values in scored.items():
                np.save(unfinished / model / f"{split}.npy", values.astype(np.float32, copy=False))
