"""The held-out characters and what each of them cost: groups of them, and who predicted them.

Computed from the text and the score of every character; no model is needed.
"""

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

CLASSES = {"Lu": "capital letters", "L": "letters", "N": "digits", "P": "punctuation", "S": "symbols", "M": "marks"}
PLACES = ["first letter of a word", "later letter", "what ends a word", "what follows no letter"]


class Characters(NamedTuple):
    """The N scored characters of a split, in the order of their scores, and (N,) their rows in the table of works."""

    text: str
    work: Ints


def read_characters(split: Path, tokens: Path, name: str) -> Characters:
    """The scored characters of split `name`, from the folders of the splits and of the tokenizer."""
    splits, tokenizer = load_splits(split), load_tokenizer(tokens)
    works = HeldOut(splits, load_lengths(split), tokenizer).passages(name, 1)
    texts = [tokenizer.decode(work.scored) for work in works]
    return Characters("".join(texts), np.repeat([work.work for work in works], list(map(len, texts))))


# ---- groups


def anatomy(characters: Characters, works: Sequence[Document], nats: Mapping[str, Nats]) -> dict[str, pd.DataFrame]:
    """The groups of a split, by what they were grouped by: column chars, and the bits per character of each model.

    Args:
        characters: the N scored ones.
        works: the table of works.
        nats: (N,) of each model or baseline.
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
    place = np.where(is_letter, np.where(after_letter, 1, 0), np.where(after_letter, 2, 3))
    labels = {
        **{by: pd.CategoricalIndex(of_works)[characters.work] for by, of_works in labels_of_works.items()},
        "class of character": pd.CategoricalIndex([_class(chr(symbol)) for symbol in symbols])[of_char],
        "place in the word": pd.CategoricalIndex(PLACES)[place],
    }  # each (N,)
    costs = pd.DataFrame(nats, dtype=np.float64) * bits(1.0)
    grouped = {by: costs.groupby(of_chars, observed=True) for by, of_chars in labels.items()}
    return {by: groups.mean().assign(chars=groups.size()) for by, groups in grouped.items()}


def _class(char: str) -> str:
    if char.isspace():
        return "line ends" if char == "\n" else "spaces"
    category = unicodedata.category(char)
    return CLASSES.get(category) or CLASSES.get(category[0], "others")


# ---- who predicted a character, counting or learning


def leads(counted: Nats, learned: Nats, n_symbols: int) -> npt.NDArray[np.float64]:
    """(n,) nats each -> (n,) how many bits fewer the learned predictor needs.

    NaN where both give a character less probability than all n_symbols being equally likely.
    """
    found = bits(1.0) * (counted.astype(np.float64) - learned)
    found[np.minimum(counted, learned) > np.log(n_symbols)] = np.nan
    return found


def passage(work: Ints, ends_line: npt.NDArray[np.bool_], length: int) -> slice:
    """At most `length` of N characters or ids, of the work that has most, from the beginning of its first whole line.

    Args:
        work: (N,), which work each is of, in the order of the works.
        ends_line: (N,).
        length: of the passage.
    """
    _, starts, lengths = np.unique(work, return_index=True, return_counts=True)
    start, n = int(starts[lengths.argmax()]), int(lengths.max())
    ends = np.flatnonzero(ends_line[start : start + n // 2])
    first = start + (int(ends[0]) + 1 if len(ends) else 0)
    return slice(first, min(first + length, start + n))
