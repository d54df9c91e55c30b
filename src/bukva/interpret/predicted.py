"""The scored characters of a split, in the order of their scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bukva.text.characters import code_points, from_code_points
from bukva.text.ids import Ids, bits
from bukva.text.passages import Passage, passages
from bukva.text.splits import load_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.text.tokenizers.base import MOST_BYTES, Tokenizer, first_char

Ints = npt.NDArray[np.int64]
CodePoints = npt.NDArray[np.uint32]

BEFORE = 4  # characters of context that are looked up in train


@dataclass(frozen=True, eq=False)
class Characters:
    """N scored characters of a split.

    codes: (N,) their code points.
    work: (N,) the row of each in the table of works.
    before: (N, BEFORE) what stands before each; 0 where there is nothing.
    context: (N,) ids before each in the window that scores it.
    """

    codes: CodePoints
    work: Ints
    before: CodePoints
    context: Ints

    def __len__(self) -> int:
        return len(self.codes)

    def text(self, start: int = 0, stop: int | None = None) -> str:
        """Characters from start to stop."""
        return from_code_points(self.codes[start:stop])


def read_characters(split: Path, tokens: Path, name: str, length: int, stride: int) -> Characters:
    """The scored characters of split `name`.

    Args:
        split: the folder of the splits.
        tokens: the folder of the tokenizer.
        name: val or test.
        length: ids of a window.
        stride: of the windows.
    """
    splits, tokenizer = load_splits(split), load_tokenizer(tokens)
    n_rule = length - stride + 1  # ids of context that the window rule takes
    n_context, n_first = max(n_rule, BEFORE * MOST_BYTES), first_char(tokenizer, splits[name])
    works = list(passages(splits, load_lengths(split), name, n_context, n_first=n_first))
    codes = [_decoded(tokenizer, work.scored) for work in works]
    return Characters(
        codes=np.concatenate(codes),
        work=np.repeat([work.work for work in works], list(map(len, codes))),
        before=np.concatenate([_before(tokenizer, work, own) for work, own in zip(works, codes, strict=True)]),
        context=np.concatenate([_context(tokenizer, work, length, stride) for work in works]),
    )


def read_train(split: Path, tokens: Path) -> CodePoints:
    """(N,) the characters of train, one work after the other."""
    return _decoded(load_tokenizer(tokens), load_splits(split)["train"])


def _decoded(tokenizer: Tokenizer, ids: Ids) -> CodePoints:
    return code_points(tokenizer.decode(ids)).astype(np.uint32)


def _before(tokenizer: Tokenizer, work: Passage, codes: CodePoints) -> CodePoints:
    """(n, BEFORE) what stands before each of the (n,) scored characters."""
    context = _decoded(tokenizer, work.ids[: work.n_context])[-BEFORE:]
    line = np.concatenate([np.zeros(BEFORE - len(context), np.uint32), context, codes[:-1]])
    return np.lib.stride_tricks.sliding_window_view(line, BEFORE)


def _context(tokenizer: Tokenizer, work: Passage, length: int, stride: int) -> Ints:
    """(n,) the ids before each character in its window: those of the id that it begins in (window_rule.py)."""
    n_rule = length - stride + 1
    at = min(work.n_context, n_rule) + np.arange(len(work.scored))  # (m,) places in the windows' passage
    in_window = np.where(at <= length, at, n_rule + (at - length - 1) % stride)
    return np.repeat(in_window, tokenizer.chars_of(work.scored))


# ---- the passages that a model finds easiest and hardest


LENGTH = 100  # characters of a passage
STEP = 10  # between the starts of passages that are compared
MOST_OF_WORK = 3  # so that one work is not all there is to see


@dataclass(frozen=True, eq=False)
class Extreme:
    """A passage of LENGTH characters of one work.

    work: its row in the table of works.
    bits: (LENGTH,) of its characters.
    """

    work: int
    text: str
    bits: npt.NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Bits per character."""
        return float(self.bits.mean())


def extremes(characters: Characters, nats: npt.NDArray[np.floating], n: int) -> tuple[list[Extreme], list[Extreme]]:
    """At most n passages with the fewest, and n with the most, of (N,) nats; the most extreme first.

    Passages do not overlap, and of a work there are MOST_OF_WORK in each list.
    """
    starts = _starts(characters.work)
    sums = np.concatenate([[0.0], np.cumsum(nats, dtype=np.float64)])
    means = (sums[starts + LENGTH] - sums[starts]) / LENGTH
    easiest = np.argsort(means, kind="stable")

    def passages(order: Ints) -> list[Extreme]:
        return [_extreme(characters, nats, start) for start in _chosen(starts[order], characters.work, n)]

    return passages(easiest), passages(easiest[::-1])


def _starts(work: Ints) -> Ints:
    """Multiples of STEP from which LENGTH characters are of one work."""
    starts = np.arange(0, max(0, len(work) - LENGTH + 1), STEP)
    return starts[work[starts] == work[starts + LENGTH - 1]]


def _chosen(starts: Ints, work: Ints, n: int) -> Iterator[int]:
    """The first n of the starts that overlap none before them and are not too many of their work."""
    taken: list[int] = []
    of_work: dict[int, int] = {}
    for start in starts.tolist():
        if len(taken) == n:
            return
        row = int(work[start])
        if of_work.get(row, 0) < MOST_OF_WORK and all(abs(start - other) >= LENGTH for other in taken):
            taken.append(start)
            of_work[row] = of_work.get(row, 0) + 1
            yield start


def _extreme(characters: Characters, nats: npt.NDArray[np.floating], start: int) -> Extreme:
    stop = start + LENGTH
    shares = nats[start:stop].astype(np.float64) * bits(1.0)
    return Extreme(int(characters.work[start]), characters.text(start, stop), shares)


# ---- who predicted what: for each character, whether counting gave it more probability, or what was learned


PASSAGE = 600  # characters of the passage that is shown

Nats = npt.NDArray[np.floating]
Bits = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shares:
    """The shares of characters to which either gave more probability, or neither as much as chance."""

    counted: float
    learned: float
    neither: float


def lead(counted: Nats, learned: Nats) -> Bits:
    """(n,) nats each -> (n,) how many bits less the learned predictor needs; negative where counting needs less."""
    return bits(1.0) * (counted.astype(np.float64) - learned)


def neither(counted: Nats, learned: Nats, n_symbols: int) -> npt.NDArray[np.bool_]:
    """(n,) whether both gave a character less probability than all n_symbols being equally likely."""
    return np.minimum(counted, learned) > np.log(n_symbols)


def shares(counted: Nats, learned: Nats, n_symbols: int) -> Shares:
    """Of (n,) characters; equal probabilities count for the learned predictor."""
    unknown = neither(counted, learned, n_symbols)
    by_learning = (lead(counted, learned) >= 0) & ~unknown
    return Shares(float((~by_learning & ~unknown).mean()), float(by_learning.mean()), float(unknown.mean()))


def passage(characters: Characters) -> slice:
    """PASSAGE characters of the work that has most of them, from the beginning of its first whole line."""
    _, starts, lengths = np.unique(characters.work, return_index=True, return_counts=True)
    longest = int(lengths.argmax())
    start = int(starts[longest])
    stop = start + int(lengths[longest])
    newline = characters.text(start, stop - PASSAGE).find("\n") if stop - start > PASSAGE else -1
    first = start + newline + 1
    return slice(first, min(first + PASSAGE, stop))
