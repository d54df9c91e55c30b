"""Scores per character on disk: what models and baselines gave to every held-out character.

A folder, an output of stage evaluate. Whoever compares experiments reads these files, and needs neither the models nor
torch. Stage baselines writes such a folder, too: of its own rows, with their table in about.json.

about.json            window rule, alphabet, digests of the texts, calibration of the GPT, and for each trained model
                      its number of parameters and the arithmetic that it was trained with
works.csv             category, author, work, year, and for each split how many characters of the work are scored
<model>/<split>.npy   float32 (N,), the nats of each scored character, works in the order of works.csv
"""

import csv
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.core.errors import BukvaError
from bukva.core.files import atomic_folder, read_json, write_json
from bukva.text.collection import Document
from bukva.text.ids import Ids, bits
from bukva.text.tokenizers.base import Tokenizer

CharNats = npt.NDArray[np.float32]  # (N,), nats of characters
ABOUT, WORKS = "about.json", "works.csv"
TABLE, BEST, ORDER = "table", "best_counted", "order"  # in about.json of stage baselines
CONTEXT = "own work"  # what stands before a scored character


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
            raise BukvaError(
                f"The scores per character cannot be read ({error!r}); run `dvc repro -f evaluate`."
            ) from None
        return cls(about, works, chars, files)

    @property
    def models(self) -> list[str]:
        """The models and baselines that were scored."""
        return sorted({name.partition("/")[0] for name in self.files if "/" in name})

    def nats(self, model: str, split: str) -> CharNats:
        """(N,) nats of the scored characters of a split, memory-mapped.

        Raises:
            BukvaError: there is no such model or split, or the file is not complete.
        """
        name = f"{model}/{split}.npy"
        if name not in self.files:
            raise BukvaError(f"There are no scores of {model} on {split}; there are {', '.join(self.models)}.")
        try:
            nats = np.load(self.files[name], mmap_mode="r")
        except (OSError, ValueError) as error:
            raise BukvaError(f"{name}: cannot be read ({error}); run `dvc repro -f evaluate`.") from None
        if nats.shape != (self.chars[split].sum(),):
            raise BukvaError(f"{name}: has not one number per scored character; run `dvc repro -f evaluate`.")
        return nats


def bits_per_char(nats: CharNats) -> float:
    """The mean of (N,) nats of characters, in bits; summed in float64."""
    return bits(float(nats.sum(dtype=np.float64)) / len(nats))


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
        return {TABLE: self.table, BEST: self.best, ORDER: list(self.nats)}

    @classmethod
    def of(cls, saved: CharScores) -> "Baselines":
        """Those that were saved."""
        nats = {name: {split: saved.nats(name, split) for split in saved.chars} for name in saved.about[ORDER]}
        return cls(saved.about[TABLE], saved.about[BEST], nats)


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
                table.writerow([work.category, work.author, work.work, work.year or "", *map(int, counts)])
        for model, scored in nats.items():
            (unfinished / model).mkdir()
            for split, values in scored.items():
                np.save(unfinished / model / f"{split}.npy", values.astype(np.float32, copy=False))


def nats_of_chars(nats: npt.NDArray[np.floating], chars: npt.NDArray[np.int64]) -> CharNats:
    """(n,) nats of ids that stand for (n,) characters -> (chars.sum(),) nats of characters; the sum stays the same.

    An id of several characters gives each an equal part. An id of none (a byte within a letter) belongs to the
    character before it.
    """
    starts = np.flatnonzero(chars)
    if not len(starts):
        return np.empty(0, np.float32)
    counts = chars[starts]
    starts[0] = 0
    sums = np.add.reduceat(nats.astype(np.float64), starts)
    return np.repeat(sums / counts, counts).astype(np.float32)


def text_digest(ids: Ids, tokenizer: Tokenizer) -> str:
    """The SHA-256 digest of the text of (N,) ids, the same for every tokenizer."""
    return hashlib.sha256(tokenizer.decode(ids).encode()).hexdigest()
