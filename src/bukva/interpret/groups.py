"""Bits per character of groups of characters: of an author, a class of characters, a position in the block."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bukva.corpus.splits.balance import decade
from bukva.interpret.predicted import Characters, CodePoints, Ints
from bukva.text.collection import MISSING, Document
from bukva.text.ids import bits

Nats = Mapping[str, npt.NDArray[np.floating]]  # model -> (N,)

CONTEXT_STEPS = 8  # into which the positions in the block are grouped
CLASSES = {"L": "letters", "N": "digits", "P": "punctuation", "S": "symbols", "M": "marks"}
BASE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
FREQUENCIES = (0, 1, 10, 100, 1000, 10_000)  # least counts of a context in train


@dataclass(frozen=True)
class Group:
    """Characters that have something in common, and what they cost.

    bits: model -> bits per character.
    """

    label: str
    chars: int
    bits: dict[str, float]


def anatomy(characters: Characters, works: Sequence[Document], train: CodePoints, nats: Nats) -> dict[str, list[Group]]:
    """The groups of a split, by what they were grouped by.

    Args:
        characters: the N scored ones.
        works: the table of works.
        train: (M,) characters of train.
        nats: (N,) of each model or baseline.
    """
    return {
        "category": _by_work(characters, works, nats, lambda work: work.category),
        "author": _by_work(characters, works, nats, lambda work: work.author),
        "decade": _by_work(characters, works, nats, lambda work: decade(work.year)),
        "work": _by_work(characters, works, nats, lambda work: work.name),
        "class": list(grouped(*_classes(characters.codes), nats)),
        "place": list(grouped(*_places(characters), nats)),
        "context": list(grouped(*_contexts(characters.context), nats)),
        "frequency": list(grouped(*_frequencies(characters.before, train), nats)),
    }


def grouped(numbers: Ints, labels: Sequence[str], nats: Nats) -> Iterator[Group]:
    """(N,) numbers of groups -> the groups that have characters, in the order of their labels."""
    counts = np.bincount(numbers, minlength=len(labels))
    sums = {model: np.bincount(numbers, of_model, len(labels)) for model, of_model in nats.items()}
    for number in np.flatnonzero(counts).tolist():
        scores = {model: bits(float(of_model[number] / counts[number])) for model, of_model in sums.items()}
        yield Group(labels[number], int(counts[number]), scores)


def _by_work(
    characters: Characters, works: Sequence[Document], nats: Nats, label: Callable[[Document], Any]
) -> list[Group]:
    """Nothing if no work has a label."""
    names, of_work = np.unique([label(work) for work in works], return_inverse=True)
    if list(names) == [MISSING]:
        return []
    return list(grouped(of_work[characters.work], names.tolist(), nats))


def _classes(codes: CodePoints) -> tuple[Ints, list[str]]:
    """The class of each character: letters, line ends, spaces and so on."""
    symbols, of_char = np.unique(codes, return_inverse=True)
    labels, of_symbol = np.unique([_class(chr(symbol)) for symbol in symbols], return_inverse=True)
    return of_symbol[of_char], labels.tolist()


def _class(char: str) -> str:
    if char == "\n":
        return "line ends"
    category = unicodedata.category(char)
    if char.isspace():
        return "spaces"
    if category == "Lu":
        return "capital letters"
    return CLASSES.get(category[0], "others")


def _places(characters: Characters) -> tuple[Ints, list[str]]:
    """Whether a letter is the first of its word, a later one, or no letter."""
    last = characters.before[:, -1]
    is_letter, after_letter = _is_letter(characters.codes), _is_letter(last)
    place = np.where(is_letter, np.where(after_letter, 1, 0), np.where(after_letter, 2, 3))
    return place, ["first letter of a word", "later letter", "what ends a word", "what follows no letter"]


def _is_letter(codes: CodePoints) -> npt.NDArray[np.bool_]:
    """(N,) which are letters, or marks on them."""
    symbols, of_char = np.unique(codes, return_inverse=True)
    return np.array([unicodedata.category(chr(symbol))[0] in "LM" for symbol in symbols])[of_char]


def _contexts(context: Ints) -> tuple[Ints, list[str]]:
    """The number of ids before each character in its window, in CONTEXT_STEPS ranges."""
    edges = np.unique(np.linspace(0, int(context.max()) + 1, CONTEXT_STEPS + 1).astype(np.int64))
    return np.searchsorted(edges, context, side="right") - 1, [_range(*pair) for pair in _pairs(edges)]


def _frequencies(before: CodePoints, train: CodePoints) -> tuple[Ints, list[str]]:
    """How often the characters before each one stand in train, in ranges."""
    n = before.shape[1]
    found = np.sort(_hashes(np.lib.stride_tricks.sliding_window_view(train, n))) if len(train) >= n else train[:0]
    wanted, of_char = np.unique(_hashes(before), return_inverse=True)
    counts = np.searchsorted(found, wanted, side="right") - np.searchsorted(found, wanted)
    labels = [*(_range(*pair) for pair in _pairs(np.array(FREQUENCIES))), f"{FREQUENCIES[-1]:,} or more"]
    return (np.searchsorted(FREQUENCIES, counts, side="right") - 1)[of_char], labels


def _hashes(windows: CodePoints) -> npt.NDArray[np.uint64]:
    """(M, n) characters -> (M,) hashes; that two different windows have the same is less likely than 1 in 10^19."""
    hashes = np.zeros(len(windows), np.uint64)
    for column in windows.T:
        hashes = hashes * BASE + column
    return hashes


def _pairs(edges: Ints) -> Iterator[tuple[int, int]]:
    return zip(edges[:-1].tolist(), (edges[1:] - 1).tolist(), strict=True)


def _range(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"
