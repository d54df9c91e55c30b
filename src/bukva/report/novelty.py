"""Measure how much of a text is copied from the training split, `train`.

The fraction of n-grams that occur in `train`, and the comparison with human text, follow McCoy et al. 2023, "How much
do language models copy from their training data?", and Merrill et al. 2024, "Evaluating n-gram novelty of language
models using Rusty-DAWG".
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bukva.corpus.repeats import equal_runs, seen_in_train
from bukva.text.characters import code_points, from_code_points
from bukva.text.collection import read_codes, read_table, works_in
from bukva.text.ids import read_shares

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


class Novelty(NamedTuple):
    """How much of a group of texts also occurs in `train`."""

    copies: list[list[Copy]]  # for each text, from left to right; of overlapping passages, only the longest
    seen: dict[int, float | None]  # n -> fraction of the n-grams that occur in `train`; None if all texts are shorter
    new_words: float | None  # fraction of the words that do not occur in `train`; None without words


def novelty(groups: Sequence[Sequence[str]], clean: Path, tokens: Path) -> list[Novelty]:
    """Measure how much of each group of texts also occurs in `train`, which stages clean and tokenize wrote."""
    table, shares = read_table(clean), read_shares(tokens)
    corpus = read_codes(clean, table)
    train = shares[shares["split"] == "train"][["start", "stop"]].to_numpy(np.int64)  # (m, 2) spans of the corpus
    known = {word for start, stop in train.tolist() for word in _words(from_code_points(corpus[start:stop]))}
    texts = [text for group in groups for text in group]
    codes, lengths = code_points("".join(texts)), np.array(list(map(len, texts)), np.int64)
    spans = np.stack([lengths.cumsum() - lengths, lengths.cumsum()], axis=1)  # (n, 2) of the joined texts
    of_group = np.split(spans, np.cumsum(list(map(len, groups)))[:-1])
    seen = seen_in_train(codes, of_group, corpus, train, LENGTHS)
    runs = equal_runs(codes, spans[lengths > 0], corpus, train, COPIED)  # (r, 3): start, start in the corpus, length
    works, ends = [work.name for work in works_in(table)], table["chars"].cumsum().tolist()
    starts, stops = spans.T.tolist()
    copies: list[list[Copy]] = [[] for _ in texts]
    for start, start_in_corpus, chars in sorted(runs.tolist(), key=lambda run: (-run[2], run[0], run[1])):
        row = bisect_right(stops, start)  # the text that contains the passage
        begin = start - starts[row]
        if all(begin + chars <= other.start or other.stop <= begin for other in copies[row]):
            copies[row].append(Copy(begin, begin + chars, works[bisect_right(ends, start_in_corpus)]))
    in_order, result = (sorted(of_text) for of_text in copies), []
    for i, group in enumerate(groups):
        words = [word for text in group for word in _words(text)]
        new_words = sum(word not in known for word in words) / len(words) if words else None
        result.append(Novelty([next(in_order) for _ in group], {n: seen[n][i] for n in LENGTHS}, new_words))
    return result


def longest(copies: Iterable[Copy]) -> Copy | None:
    """Return the longest copied passage, or None if there is none."""
    return max(copies, key=lambda copy: copy.chars, default=None)


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())
