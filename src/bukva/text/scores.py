"""Scores per character on disk: what models and baselines gave to every held-out character.

A folder, an output of stage evaluate. Whoever compares experiments reads these files, and needs neither the models nor
torch. Stage baselines writes such a folder, too: of its own rows, with their table in about.json.

about.json            window rule, alphabet, digests of the texts, calibration of the GPT, and for each trained model
                      its number of parameters and the arithmetic that it was trained with
works.csv             category, author, work, year, and for each split how many characters of the work are scored
<model>/<split>.npy   float32 (N,), the nats of each scored character, works in the order of works.csv
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
CONTEXT = "own work"  # what stands before a scored character
AGAIN = "run `dvc repro -f evaluate`"


@dataclass(frozen=True)
class CharScores:
    """The scores of one experiment.

    about: the content of about.json.
    works: (G,) the works, in their order.
    chars: split -> (G,), how many characters of each work are scored.
    files: name -> path of every file.
    """

    about: dict[str, Any]
    works: list[Document]
    chars: dict[str, npt.NDArray[np.int64]]
    files: Mapping[str, Path]

    @classmethod
    def read(cls, files: Mapping[str, Path]) -> "CharScores":
        """The scores in these files, which may lie anywhere: name in the folder -> path.

        Raises:
            BukvaError: a file is missing or is not what stage evaluate writes.
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
        """(N,) nats of the scored characters of a split, memory-mapped.

        Raises:
            BukvaError: there is no such file, or it is not complete.
        """
        name = f"{model}/{split}.npy"
        try:
            return np.load(self.files[name], mmap_mode="r").reshape(int(self.chars[split].sum()))
        except (OSError, ValueError, KeyError) as error:
            raise BukvaError(f"{name}: cannot be read ({error}); {AGAIN}.") from None


@dataclass(frozen=True)
class Baselines:
    """What stage baselines finds.

    table: split -> baseline -> bits per character; on train only what is fitted to it.
    best: the baseline that counts best on val.
    nats: baseline -> split -> (N,) of the held-out characters; a compressor has none.
    """

    table: dict[str, dict[str, float]]
    best: str
    nats: dict[str, dict[str, CharNats]]

    def to_json(self) -> dict[str, Any]:
        """What stands in about.json beside the nats."""
        return {"table": self.table, "best_counted": self.best, "order": list(self.nats)}

    @classmethod
    def of(cls, saved: CharScores) -> "Baselines":
        """Those that were saved."""
        nats = {name: {split: saved.nats(name, split) for split in saved.chars} for name in saved.about["order"]}
        return cls(saved.about["table"], saved.about["best_counted"], nats)


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a folder by their names in it, for CharScores.read."""
    return {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}


def save_scores(
    folder: Path,
    about: dict[str, Any],
    works: list[Document],
    chars: dict[str, npt.NDArray[np.int64]],
    nats: dict[str, dict[str, CharNats]],
) -> None:
    """Write the folder in one step; `nats` is model -> split -> (N,), and `chars` split -> (G,)."""
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
