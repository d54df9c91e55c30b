"""Works for tests: tables of them, their texts, and ways to divide them."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path

import pandas as pd
from hypothesis import strategies as st

from bukva.core.schema import Split
from bukva.text.collection import Work, read_table, read_texts, write_collection


def texts_in(folder: Path) -> dict[Work, str]:
    """The text of every work of a collection, in the order of the table."""
    return dict(read_texts(folder, read_table(folder)))


def saved(folder: Path, works: Mapping[str, str]) -> pd.DataFrame:
    """Write works with these names and texts, without authors, to a folder, and return their table."""
    return write_collection(folder, ((Work("-", "-", name), text) for name, text in works.items()))


def works_of(chars: Iterable[int], authors: Iterable[str] = "-", categories: Iterable[str] = "-") -> pd.DataFrame:
    """The table of works of so many characters; authors and categories repeat."""
    named = zip(cycle(categories), cycle(authors), chars)
    rows = [(category, author, f"{number:03}", n) for number, (category, author, n) in enumerate(named)]
    return pd.DataFrame(rows, columns=["category", "author", "work", "chars"]).astype({"chars": "int64"})


def split(train: float, val: float, test: float, strategy: str = "tail", duplicates: str = "keep") -> Split:
    fractions = {"train": train, "val": val, "test": test}
    return Split.model_validate({"strategy": strategy, "duplicates": duplicates, **fractions})


@st.composite
def splits(draw: st.DrawFn, *strategies: str) -> Split:
    """Three fractions with up to 15 digits whose sum is as near to 1 as floating point allows."""
    whole = 10 ** draw(st.integers(1, 15))
    train = draw(st.integers(1, whole - 1))
    val = draw(st.integers(1, whole - train))
    return split(train / whole, val / whole, (whole - train - val) / whole, draw(st.sampled_from(strategies)))
