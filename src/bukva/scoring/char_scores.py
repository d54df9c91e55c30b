"""Read and write the folders with scores per character that stages evaluate and baselines write.

about.json            how the text was scored and the models were trained, or the table of the baselines' scores
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
from bukva.text.collection import Work
from bukva.text.ids import CharNats

ABOUT, WORKS = "about.json", "works.csv"
CONTEXT = "own work"  # about.json: the context of a scored character is text of the same work
Chars = dict[str, npt.NDArray[np.int64]]  # (G,) number of scored characters of each work, by name of the split
AGAIN = "run `dvc repro -f evaluate`"


@dataclass(frozen=True)
class CharScores:
    about: dict[str, Any]
    works: list[Work]  # the G works
    chars: Chars
    files: Mapping[str, Path]  # path of each file, by its name within the folder of scores

    @classmethod
    def read(cls, files: Mapping[str, Path]) -> "CharScores":
        """Read about.json and works.csv, or raise a BukvaError if they are not what stage evaluate writes."""
        try:
            about = read_json(files[ABOUT])
            with files[WORKS].open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            works = [Work(row["category"], row["author"], row["work"], row["year"] or None) for row in rows]
            chars = {split: np.array([int(row[split]) for row in rows], np.int64) for split in about["text"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BukvaError(f"The scores per character cannot be read ({error!r}); {AGAIN}.") from None
        return cls(about, works, chars, files)

    def nats(self, model: str, split: str) -> CharNats:
        """Return the (N,) losses in nats of the scored characters of a split under a model, memory-mapped."""
        name = f"{model}/{split}.npy"
        try:
            return np.load(self.files[name], mmap_mode="r").reshape(int(self.chars[split].sum()))
        except (OSError, ValueError, KeyError) as error:
            raise BukvaError(f"{name}: cannot be read ({error}); {AGAIN}.") from None


@dataclass(frozen=True)
class Baselines:
    table: dict[str, dict[str, float]]  # bits per character, by names of split and baseline; train: fitted ones only
    best: str  # name of the n-gram baseline with the fewest bits per character on val
    nats: dict[str, dict[str, CharNats]]  # losses, by names of baseline and held-out split, without compressors

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "best_counted": self.best, "order": list(self.nats)}

    @classmethod
    def load(cls, saved: CharScores) -> "Baselines":
        nats = {name: {split: saved.nats(name, split) for split in saved.chars} for name in saved.about["order"]}
        return cls(saved.about["table"], saved.about["best_counted"], nats)


def files_of(folder: Path) -> dict[str, Path]:
    return {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}


def save_scores(
    folder: Path, about: dict[str, Any], works: list[Work], chars: Chars, nats: dict[str, dict[str, CharNats]]
) -> None:
    """Write a folder of scores. `nats` has the (N,) losses of scored characters, by names of model and split."""
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / ABOUT, about)
        with (unfinished / WORKS).open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["category", "author", "work", "year", *chars])
            table.writerows([*astuple(work), *counts] for work, *counts in zip(works, *chars.values(), strict=True))
        for model, scored in nats.items():
            (unfinished / model).mkdir()
            for split, values in scored.items():
                np.save(unfinished / model / f"{split}.npy", values.astype(np.float32, copy=False))
