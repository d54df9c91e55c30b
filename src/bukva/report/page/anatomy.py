"""Analyze the scored characters of a split: group the characters, compare two predictors, and choose a passage."""

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.text.characters import code_points
from bukva.text.collection import Document, decade
from bukva.text.held_out import HeldOut
from bukva.text.ids import Nats, bits
from bukva.text.splits import load_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer

Ints = npt.NDArray[np.int64]
# Unicode category, or its first letter -> class of characters
CLASSES = {"Lu": "capital letters", "L": "letters", "N": "digits", "P": "punctuation", "S": "symbols", "M": "marks"}
POSITIONS = ["first letter of a word", "later letter", "first character after a word", "other character"]


class Characters(NamedTuple):
    """The N scored characters of a split. In an array of scores, element i is the score of character i.

    text: the characters.
    work: (N,), row number of the work of each character in the table of works.
    """

    text: str
    work: Ints


def read_characters(split: Path, tokens: Path, name: str) -> Characters:
    """Read the scored characters of a split.

    Args:
        split: the folder that stage split wrote.
        tokens: the folder that stage tokenize wrote.
        name: the name of the split, such as "val".
    """
    splits, tokenizer = load_splits(split), load_tokenizer(tokens)
    works = HeldOut(splits, load_lengths(split), tokenizer).passages(name, 1)
    texts = [tokenizer.decode(work.scored) for work in works]
    return Characters("".join(texts), np.repeat([work.work for work in works], list(map(len, texts))))


def anatomy(characters: Characters, works: Sequence[Document], nats: Mapping[str, Nats]) -> dict[str, pd.DataFrame]:
    """Compute the bits per character of groups of characters, for several ways of grouping them.

    Args:
        characters: the N scored characters.
        works: the works, in the order of the table of works.
        nats: (N,) loss of each character in nats, by name of the model or baseline.

    Returns:
        One table per way of grouping: "category", "author", "decade", "work", "class of character" and "position in
        the word". A table has one row per group. For each key of `nats`, a column has the bits per character. Column
        `chars` has the number of characters.
    """
    labels_of_works = {
        "category": [work.category for work in works],
        "author": [work.author for work in works],
        "decade": [decade(work.year) for work in works],
        "work": [work.name for work in works],
    }
    symbols, of_char = np.unique(code_points(characters.text), return_inverse=True)
    is_letter = np.array([unicodedata.category(chr(symbol))[0] in "LM" for symbol in symbols])[of_char]  # (N,)
    after_letter = np.roll(is_letter, 1) & (np.roll(characters.work, 1) == characters.work)
    after_letter[:1] = False
    position = np.where(is_letter, np.where(after_letter, 1, 0), np.where(after_letter, 2, 3))
    labels = {
        **{by: pd.CategoricalIndex(of_works)[characters.work] for by, of_works in labels_of_works.items()},
        "class of character": pd.CategoricalIndex([_class(chr(symbol)) for symbol in symbols])[of_char],
        "position in the word": pd.CategoricalIndex(POSITIONS)[position],
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
    """Return the lead of a neural network over an n-gram model on each of n characters, in bits.

    Args:
        counted: (n,) loss of each character in nats under the n-gram model.
        learned: (n,) loss of each character in nats under the network.
        n_symbols: the number of different characters in the corpus.

    Returns:
        (n,) leads, which are negative where the n-gram model is better. The lead is NaN where both models are worse
        than a uniform guess among `n_symbols` characters.
    """
    lead = bits(1.0) * (counted.astype(np.float64) - learned)
    lead[np.minimum(counted, learned) > np.log(n_symbols)] = np.nan
    return lead


def passage(work: Ints, ends_line: npt.NDArray[np.bool_], length: int) -> slice:
    """Choose a passage of the longest work. Return the passage as a slice of the characters (or ids).

    The passage begins after the first line of the work. If the first half of the work contains no line end, the passage
    begins at the beginning of the work.

    Args:
        work: (N,), the number of the work of each character or id, in ascending order.
        ends_line: (N,), True for the last character or id of a line.
        length: the maximum number of characters or ids in the passage.
    """
    _, starts, lengths = np.unique(work, return_index=True, return_counts=True)
    start, n = int(starts[lengths.argmax()]), int(lengths.max())
    ends = np.flatnonzero(ends_line[start : start + n // 2])
    first = start + (int(ends[0]) + 1 if len(ends) else 0)
    return slice(first, min(first + length, start + n))
