"""Analyze the scored characters of a split: group them, compare two predictors, and choose a passage."""

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.text.characters import code_points
from bukva.text.collection import Document
from bukva.text.held_out import HeldOut
from bukva.text.ids import Nats, bits
from bukva.text.splits import load_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer

Ints = npt.NDArray[np.int64]
# Unicode category, or its first letter -> class of characters
CLASSES = {"Lu": "capital letters", "L": "letters", "N": "digits", "P": "punctuation", "S": "symbols", "M": "marks"}
POSITIONS = ["first letter of a word", "later letter", "first character after a word", "other character"]


class Characters(NamedTuple):
    """The N scored characters of a split. Element i of an array of scores belongs to character i."""

    text: str
    work: Ints  # (N,), row number of the work of each character in the table of works


def read_characters(split: Path, tokens: Path, name: str) -> Characters:
    """Read the scored characters of the split `name` from the outputs of stages split and tokenize."""
    splits, tokenizer = load_splits(split), load_tokenizer(tokens)
    works = HeldOut(splits, load_lengths(split), tokenizer).passages(name, 1)
    texts = [tokenizer.decode(work.scored) for work in works]
    return Characters("".join(texts), np.repeat([work.work for work in works], list(map(len, texts))))


def anatomy(characters: Characters, works: Sequence[Document], nats: Mapping[str, Nats]) -> dict[str, pd.DataFrame]:
    """Compute the bits per character of groups of characters.

    Args:
        characters: the N scored characters.
        works: the table of works.
        nats: (N,) loss of each character in nats, by name of the model or baseline.

    Returns:
        For each way of grouping, a table with one row per group: the bits per character under each key of `nats`, and
        the number of characters in column `chars`.
    """
    symbols, of_char = np.unique(code_points(characters.text), return_inverse=True)
    is_letter = np.array([unicodedata.category(chr(symbol))[0] in "LM" for symbol in symbols])[of_char]  # (N,)
    after_letter = np.roll(is_letter, 1) & (np.roll(characters.work, 1) == characters.work)
    after_letter[:1] = False
    position = np.where(is_letter, np.where(after_letter, 1, 0), np.where(after_letter, 2, 3))
    labels = {
        "position in the word": pd.CategoricalIndex(POSITIONS)[position],
        "class of character": pd.CategoricalIndex([_class(chr(symbol)) for symbol in symbols])[of_char],
        "category": pd.CategoricalIndex([work.category for work in works])[characters.work],
        "author": pd.CategoricalIndex([work.author for work in works])[characters.work],
        "work": pd.CategoricalIndex([work.name for work in works])[characters.work],
    }  # each (N,)
    costs = pd.DataFrame(nats, dtype=np.float64) * bits(1.0)
    grouped = {by: costs.groupby(of_chars, observed=True) for by, of_chars in labels.items()}
    return {by: groups.mean().assign(chars=groups.size()) for by, groups in grouped.items()}


def _class(char: str) -> str:
    if char.isspace():
        return "line ends" if char == "\n" else "spaces"
    category = unicodedata.category(char)
    return CLASSES.get(category) or CLASSES.get(category[0], "others")


def leads(counted: Nats, learned: Nats, n_symbols: int) -> npt.NDArray[np.float64]:
    """Return by how many bits a network (losses `learned`) beats n-grams (losses `counted`) on each character.

    The lead is NaN where both are worse than a uniform guess among `n_symbols` characters.
    """
    lead = bits(1.0) * (counted.astype(np.float64) - learned)
    lead[np.minimum(counted, learned) > np.log(n_symbols)] = np.nan
    return lead


def passage(characters: Characters, length: int) -> slice:
    """Choose at most `length` characters of the longest work, after its first line if its first half has a line end."""
    _, starts, lengths = np.unique(characters.work, return_index=True, return_counts=True)
    start, n = int(starts[lengths.argmax()]), int(lengths.max())
    first = characters.text.find("\n", start, start + n // 2) + 1 or start
    return slice(first, min(first + length, start + n))
