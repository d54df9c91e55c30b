"""The scored characters of a split, in the order of their scores."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bukva.text.characters import code_points, from_code_points
from bukva.text.ids import Ids
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
