"""Measure how much of a text is copied from the training split, `train`.

The fraction of n-grams that occur in `train`, and the comparison with human text, follow McCoy et al. 2023, "How much
do language models copy from their training data?", and Merrill et al. 2024, "Evaluating n-gram novelty of language
models using Rusty-DAWG".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bukva.corpus.repeats import Ints, equal_runs, seen_in_train
from bukva.text.characters import Codes, code_points, from_code_points
from bukva.text.collection import documents, read_table, read_text
from bukva.text.splits import Spans, read_shares

LENGTHS = (8, 16, 32)  # lengths of n-grams in characters
COPIED = 16  # characters (two or three words); shorter passages do not count as copied
WORD = re.compile(r"[^\W\d_]+")


class Copy(NamedTuple):
    """The characters [start, stop) of a text that also occur in `work`, a work of `train`."""

    start: int
    stop: int
    work: str

    @property
    def chars(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Novelty:
    """How much of a group of texts also occurs in `train`.

    copies: for each text, its copied passages from left to right. Of overlapping passages, only the longest is kept.
    seen: fraction of the n-grams of all texts that occur in `train`, by n; None if every text is shorter than n.
    new_words: fraction of the words that do not occur in `train`; None if the texts contain no words.
    """

    copies: list[list[Copy]]
    seen: dict[int, float | None]
    new_words: float | None

    @property
    def longest(self) -> Copy | None:
        """Longest copied passage of all texts, or None if nothing is copied."""
        return max((copy for of_text in self.copies for copy in of_text), key=lambda copy: copy.chars, default=None)


@dataclass(frozen=True, eq=False)
class Train:
    """The training split, as spans of the joined text of the whole corpus."""

    text: Codes  # (N,) code points of all works
    spans: Spans  # (m, 2), start and stop in `text` of each span of `train`
    words: frozenset[str]  # in lower case
    works: list[str]  # names of all works
    ends: Ints  # (n_works,), the end of each work in `text`


def read_train(clean: Path, tokens: Path) -> Train:
    """Read the training split from the outputs of stages clean and tokenize."""
    table, shares = read_table(clean), read_shares(tokens)
    spans = shares[shares["split"] == "train"][["start", "stop"]].to_numpy(np.int64)
    works, ends = [work.name for work in documents(table)], table["chars"].to_numpy(np.int64).cumsum()
    text = code_points(read_text(clean))
    parts = (from_code_points(text[start:stop]) for start, stop in spans.tolist())
    words = frozenset(word for part in parts for word in WORD.findall(part.lower()))
    return Train(text, spans, words, works, ends)


def novelty(groups: Sequence[Sequence[str]], train: Train) -> list[Novelty]:
    """Measure how much of each group of texts also occurs in `train`. Return one result per group."""
    texts = [text for group in groups for text in group]
    codes, stops = code_points("".join(texts)), np.cumsum(list(map(len, texts)), dtype=np.int64)
    spans = np.stack([stops - list(map(len, texts)), stops], axis=1)  # (n, 2) of the joined texts
    of_group = np.split(spans, np.cumsum(list(map(len, groups)))[:-1])
    copies = iter(_copies(codes, spans, train))
    counted = {n: seen_in_train(codes, of_group, train.text, train.spans, n) for n in LENGTHS}
    result = []
    for i, group in enumerate(groups):
        seen = {n: shares[i] for n, shares in counted.items()}
        words = [word for text in group for word in WORD.findall(text.lower())]
        new_words = sum(word not in train.words for word in words) / len(words) if words else None
        result.append(Novelty([next(copies) for _ in group], seen, new_words))
    return result


def _copies(codes: Codes, spans: Spans, train: Train) -> list[list[Copy]]:
    """Return the copied passages of each of n texts."""
    runs: list[list[tuple[int, int, int]]] = [[] for _ in spans]  # per text: start, start in train.text, length
    filled = spans[spans[:, 1] > spans[:, 0]]
    equal = equal_runs(codes, filled, train.text, train.spans, COPIED)
    rows = np.searchsorted(spans[:, 1], equal[:, 0], side="right")
    for row, (start_in_codes, start_in_train, chars) in zip(rows.tolist(), equal.tolist(), strict=True):
        runs[row].append((start_in_codes - int(spans[row, 0]), start_in_train, chars))
    return [list(_longest(of_text, train)) for of_text in runs]


def _longest(runs: Iterable[tuple[int, int, int]], train: Train) -> Iterator[Copy]:
    """Yield the copied passages of a text from left to right, without overlaps."""
    kept: list[tuple[int, int, int]] = []
    for start, start_in_train, chars in sorted(runs, key=lambda run: (-run[2], run[0], run[1])):
        if all(start + chars <= other or other + n <= start for other, _, n in kept):
            kept.append((start, start_in_train, chars))
    for start, start_in_train, chars in sorted(kept):
        yield Copy(start, start + chars, train.works[int(np.searchsorted(train.ends, start_in_train, side="right"))])
