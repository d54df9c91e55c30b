"""Works for tests: tables of them, their texts, ways to divide them, and works of several alphabets in ids."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from bukva.core.schema import Split, Tokenize
from bukva.corpus.splits import tokenize
from bukva.text.collection import Work, read_table, read_texts, write_collection
from bukva.text.held_out import HeldOut
from bukva.text.ids import load_lengths, load_splits, read_shares, save_splits


def texts_in(folder: Path) -> dict[Work, str]:
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


KINDS = ["char", "byte", "bpe"]
SPLITS = {"tail": split(0.8, 0.1, 0.1), "contiguous": split(0.7, 0.15, 0.15, "contiguous")}
WORKS = {"а": "мир и война, война и мир\n" * 29, "б": "", "в": "日本 — мир 😀 и war\n" * 23 + "мир", "г": "и"}


def encoded(folder: Path, kind: str, split: Split) -> HeldOut:
    """Encode and divide the works in folder/clean; return the held-out text as stage evaluate reads it."""
    params = Tokenize(kind=kind, vocabulary="all", vocab_size=277)
    tokenizer, *_ = tokenize(folder / "clean", folder / "tokens", params, split)
    save_splits(folder / "split", np.load(folder / "tokens" / "ids.npy"), read_shares(folder / "tokens"))
    return HeldOut(load_splits(folder / "split"), load_lengths(folder / "split"), tokenizer)


def held_out(folder: Path, kind: str, split: str) -> HeldOut:
    saved(folder / "clean", WORKS)
    return encoded(folder, kind, SPLITS[split])
