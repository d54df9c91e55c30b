"""What of a text stands in train: how much of a sample is copied, beside held-out text that a person wrote.

The share of n-grams that train has, and the comparison with human text, are those of McCoy et al. 2023, "How much do
language models copy from their training data?", and Merrill et al. 2024, "Evaluating n-gram novelty of language models
using Rusty-DAWG". Search is exact: by hashes, and then character by character (corpus/repeats/grams.py).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bukva.corpus.repeats.grams import Ints, Spans, equal_runs, index_parts
from bukva.corpus.repeats.leaks import seen_in_train
from bukva.corpus.splits.division import mapped_codes
from bukva.text.characters import Codes, code_points, from_code_points
from bukva.text.collection import documents, read_table
from bukva.text.splits import read_shares

LENGTHS = (8, 16, 32)  # of n-grams
COPIED = 16  # characters in a row that make a copied passage: two or three words
WORD = re.compile(r"[^\W\d_]+")


class Copy(NamedTuple):
    """Characters of a text, from start to stop, that stand in a work of train, too."""

    start: int
    stop: int
    work: str

    @property
    def chars(self) -> int:
        """How many."""
        return self.stop - self.start


@dataclass(frozen=True)
class Novelty:
    """What train has of some texts.

    copies: for each text its copied passages, in order; where they overlap, the longer one.
    seen: n -> the share of n-grams within the texts that train has; None if no text has n characters.
    new_words: the share of words that train does not have; None without words.
    """

    copies: list[list[Copy]]
    seen: dict[int, float | None]
    new_words: float | None

    @property
    def longest(self) -> Copy | None:
        """The longest copied passage of all texts."""
        return max((copy for of_text in self.copies for copy in of_text), key=lambda copy: copy.chars, default=None)


@dataclass(frozen=True, eq=False)
class Train:
    """The text of train.

    text: (N,) characters of the joined corpus.
    spans: (m, 2) what of it is train.
    words: all different ones of train, in small letters.
    works: the names of the works, and ends: (n_works,), where each ends in the joined corpus.
    """

    text: Codes
    spans: Spans
    words: frozenset[str]
    works: list[str]
    ends: Ints


@contextmanager
def open_train(clean: Path, tokens: Path) -> Iterator[Train]:
    """The train split of a cleaned text, mapped while it is open."""
    table, shares = read_table(clean), read_shares(tokens)
    spans = shares[shares["split"] == "train"][["start", "stop"]].to_numpy(np.int64)
    works, ends = [work.name for work in documents(table)], table["chars"].to_numpy(np.int64).cumsum()
    with mapped_codes(clean, table) as (_, text):
        shares_of_works = (from_code_points(text[start:stop]) for start, stop in spans.tolist())
        words = frozenset(word for share in shares_of_works for word in WORD.findall(share.lower()))
        yield Train(text, spans, words, works, ends)


def novelty(groups: Sequence[Sequence[str]], train: Train) -> list[Novelty]:
    """What train has of each group of texts."""
    texts = [text for group in groups for text in group]
    codes, stops = code_points("".join(texts)), np.cumsum(list(map(len, texts)), dtype=np.int64)
    spans = np.stack([stops - list(map(len, texts)), stops], axis=1)  # (n, 2) of the joined texts
    of_group = np.split(spans, np.cumsum(list(map(len, groups)))[:-1])
    copies = iter(_copies(codes, spans, train))
    counted = {n: seen_in_train(codes, of_group, train.text, train.spans, n) for n in LENGTHS}
    found = []
    for i, group in enumerate(groups):
        seen = {n: shares[i] for n, shares in counted.items()}
        words = [word for text in group for word in WORD.findall(text.lower())]
        new_words = sum(word not in train.words for word in words) / len(words) if words else None
        found.append(Novelty([next(copies) for _ in group], seen, new_words))
    return found


def _copies(codes: Codes, spans: Spans, train: Train) -> list[list[Copy]]:
    """The copied passages of each text."""
    runs: list[list[tuple[int, int, int]]] = [[] for _ in spans]  # where in the text, where in train, characters
    filled = spans[spans[:, 1] > spans[:, 0]]
    for index in index_parts(codes, filled, COPIED):
        for start, stop in train.spans.tolist():
            for found in equal_runs(codes, index, filled, train.text, start, stop):
                rows = np.searchsorted(spans[:, 1], found[:, 0], side="right")
                for row, (at, place, chars) in zip(rows.tolist(), found.tolist(), strict=True):
                    runs[row].append((at - int(spans[row, 0]), place, chars))
    return [list(_longest(of_text, train)) for of_text in runs]


def _longest(runs: Iterable[tuple[int, int, int]], train: Train) -> Iterator[Copy]:
    """Runs that do not overlap, in order: longer ones first, then those that stand earlier in train."""
    taken: list[tuple[int, int, int]] = []
    for start, place, chars in sorted(runs, key=lambda run: (-run[2], run[0], run[1])):
        if all(start + chars <= other or other + n <= start for other, _, n in taken):
            taken.append((start, place, chars))
    for start, place, chars in sorted(taken):
        yield Copy(start, start + chars, train.works[int(np.searchsorted(train.ends, place, side="right"))])
