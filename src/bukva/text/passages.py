"""Which characters of held-out text are scored, and what stands before them: the own text of their work.

Under split `tail` a work's share of test follows its share of val, which follows its share of train. Where works follow
one another in a split, the end of one says nothing about the start of the next; a score with another work as context
would measure that, too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bukva.text.ids import Ids, Nats, Scorer


@dataclass(frozen=True)
class Passage:
    """A work's share of a split, after its own preceding text.

    work: its row in the document table.
    ids: (n,), of which the first n_context are context only.
    n_context: at least 1.
    """

    work: int
    ids: Ids
    n_context: int

    @property
    def scored(self) -> Ids:
        """(n - n_context,) the ids that are scored."""
        return self.ids[self.n_context :]


def passages(
    splits: dict[str, Ids],
    lengths: dict[str, npt.NDArray[np.int64]],
    split: str,
    n_context: int,
    share: float = 1,
    n_first: int = 1,
) -> Iterator[Passage]:
    """The works of a split, each with at most n_context ids of its own text before it; those without text are left out.

    The first character of a split is not scored. The first id of a work, which has no text of its own before it, has
    the id that stands before it in the split: the newline that ends another work.

    Args:
        splits: split -> (N,) ids, in the order train, val, test.
        lengths: split -> (n_works,), how many ids each work has in it.
        split: the one to score.
        n_context: at least 1.
        share: score only this share of each work, from its start in the split.
        n_first: how many ids the first character of the split is.
    """
    splits = {name: np.asarray(ids) for name, ids in splits.items()}  # a slice of a mapped array costs much more
    edges = {name: np.concatenate([[0], np.cumsum(lengths[name])]) for name in splits}
    earlier = list(splits)[: list(splits).index(split)]
    for work, (start, stop) in enumerate(pairwise(edges[split].tolist())):
        first = max(start, n_first)
        if first >= stop:
            continue
        before = [_last(splits[name], edges[name][work : work + 2], n_context) for name in earlier]
        own = np.concatenate([*before, splits[split][start:first]])[-n_context:]
        context = own if len(own) else splits[split][start - 1 : start]
        end = first + math.ceil((stop - first) * share)
        yield Passage(work, np.concatenate([context, splits[split][first:end]]), len(context))


def scored_ids(passages: Sequence[Passage]) -> Ids:
    """(N,) the scored ids of passages, one passage after the other."""
    return np.concatenate([passage.scored for passage in passages])


def nats_by_last_id(scorer: Scorer, passages: Sequence[Passage]) -> Nats:
    """(N,) the nats of the scored ids, under a scorer that sees the last id alone: all passages are scored at once."""
    ids = np.concatenate([passage.ids for passage in passages])
    sizes = np.array([(passage.n_context, len(passage.scored)) for passage in passages])  # (P, 2)
    is_scored = np.repeat(np.tile([False, True], len(passages)), sizes.ravel())  # (len(ids),)
    return scorer(ids)[is_scored[1:]]


def _last(ids: Ids, span: npt.NDArray[np.int64], n: int) -> Ids:
    """The last n ids between two edges, or all of them."""
    start, stop = span
    return ids[max(start, stop - n) : stop]
