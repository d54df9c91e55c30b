"""How far the authors, categories and decades of a split are from those of the whole corpus.

The distance is total variation: the share of characters that would have to change hands. It is 0 for equal shares and 1
where nothing is common, and it is read without a scale of its own; the divergence of Jensen and Shannon orders splits
alike, but 0.03 bits tells a reader nothing.
"""

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bukva.text.collection import MISSING

if TYPE_CHECKING:
    import pandas as pd


def labels(table: "pd.DataFrame") -> dict[str, "pd.Series[str]"]:
    """What is balanced: the author, category and decade of each work."""
    return {"author": table["author"], "category": table["category"], "decade": decades(table["year"])}


def shares(labels: "pd.Series[str]", chars: npt.NDArray[np.int64]) -> "pd.Series[float]":
    """(n_works,) labels and characters -> the share of each label, the sum being 1; a split has characters."""
    sums = labels.astype(str).to_frame("label").assign(chars=chars).groupby("label")["chars"].sum()
    return sums / sums.sum()


def total_variation(part: "pd.Series[float]", whole: "pd.Series[float]") -> float:
    """Half the sum of the differences of shares: between 0 and 1."""
    return float(part.sub(whole, fill_value=0).abs().sum() / 2)


def decades(years: "pd.Series[str]") -> "pd.Series[str]":
    """1863 -> 1860s; a range (1863-1869) counts by its first year; `-` where there is no year of four digits."""
    return years.map(decade)


def decade(year: object) -> str:
    """The decade of one work; its year is no text if it is missing."""
    found = re.search(r"\d{4}", year) if isinstance(year, str) else None  # a missing year is a float
    return f"{found.group()[:3]}0s" if found else MISSING
