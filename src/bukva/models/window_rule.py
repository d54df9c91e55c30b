"""Score text with sliding windows: compute the loss of each character, in nats.

The window rule defines the context of each character. Scores under different window rules cannot be compared. Every
character of a split except the first is scored once. Its context is text before it in the same work. A window has
`block_size` ids, and the next window starts half of `block_size` later. This distance is the stride. Each window after
the first scores only ids that no earlier window has scored. So these ids have at least `block_size - stride + 1` ids of
context. N-gram counts use the K - 1 ids before each id, where K is the length of the longest n-gram. These K - 1 ids
may be before the window, but must be in the same work.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.core.progress import OnProgress, no_progress
from bukva.models.base import LanguageModel
from bukva.text.held_out import Passage
from bukva.text.ids import Ids, bits, ids_at

# Maximum number of ids in a forward pass. Their activations fit the cache of a CPU core, or keep a GPU busy.
BATCH_CHARS = {"cpu": 2**11, "cuda": 2**16}
# Maximum number of logits in a forward pass. A GPT with n-grams needs much memory for the logits of a large vocabulary.
BATCH_LOGITS = {"cpu": 2**22, "cuda": 2**26}
Watch = Callable[[Tensor, Tensor], None]  # called with (n, V) logits and the (n,) ids that they predict
# Maximum number of ids to score of `train`, and of `val` during training. Scoring more ids takes minutes and hardly
# changes the score.
MAX_SCORED_IDS = 2**18
N_EXCERPTS = 16  # number of excerpts to score of a text that is too long to score whole
Positions = npt.NDArray[np.int64]
R = TypeVar("R")


@dataclass(frozen=True)
class Score:
    """Score of a text: the mean loss of its characters in nats, and the number of its characters."""

    nats_per_char: float
    chars: int

    @classmethod
    def of(cls, nats: npt.NDArray[np.float32], chars: int) -> "Score":
        """Return the score of a text with `chars` characters.

        `nats`, (n,), contains the losses of its n ids. They are summed in float64.
        """
        return cls(float(nats.sum(dtype=np.float64)) / chars, chars)

    @property
    def bits_per_char(self) -> float:
        """Mean loss in bits per character, the main score of a model."""
        return bits(self.nats_per_char)


def ids_per_batch(model: LanguageModel) -> int:
    """Return the maximum number of ids in a forward pass of `model`. It is smaller for a large vocabulary."""
    device = next(model.parameters()).device.type
    return max(1, min(BATCH_CHARS[device], BATCH_LOGITS[device] // model.config.vocab_size))


def stride_of(block_size: int) -> int:
    """Return the stride of the window rule: half of `block_size`, but at least 1."""
    return max(1, block_size // 2)


def context_of(model: LanguageModel, block_size: int, stride: int) -> int:
    """Return how many ids before an id are needed to score it.

    A window needs `block_size - stride + 1` ids, and n-gram counts need `model.n_before + 1` ids. The result is
    the larger number.
    """
    return max(block_size - stride, model.n_before) + 1


def evenly_spaced(ids: Ids, n_ids: int, n_before: int = 0) -> list[Passage]:
    """Return N_EXCERPTS evenly spaced excerpts of a text, in which at least `n_ids` ids are scored in total.

    If the text is too short for these excerpts, return a single passage with the whole text.

    Args:
        ids: (N,), the ids of the text.
        n_ids: number of ids to score.
        n_before: number of ids before a window that n-gram counts use. Each excerpt begins with `n_before + 1` ids of
            context, or with fewer at the start of the text.
    """
    length = -(-n_ids // N_EXCERPTS) + 1  # the first id of an excerpt is only context
    if length * N_EXCERPTS >= len(ids):
        return [Passage(0, ids, 1)]
    starts = np.linspace(0, len(ids) - length, N_EXCERPTS).astype(np.int64).tolist()
    n_contexts = [min(start, n_before) + 1 for start in starts]
    return [Passage(0, ids[start + 1 - n : start + length], n) for start, n in zip(starts, n_contexts, strict=True)]


def spread_windows(ids: Ids, n: int, length: int) -> Tensor:
    """Return evenly spaced windows of a text, as a tensor of shape (`n`, `length`).

    If `n` windows would overlap, return fewer windows. `ids` are the (N,) ids of the text.
    """
    starts = np.linspace(0, len(ids) - length, min(n, len(ids) // length)).astype(np.int64)
    return torch.from_numpy(ids[starts[:, None] + np.arange(length)].astype(np.int64))


def nats_of(
    model: LanguageModel,
    ids: Ids,
    block_size: int,
    stride: int,
    *,
    of_train: bool = False,
    on_progress: OnProgress = no_progress,
) -> npt.NDArray[np.float32]:
    """Return the loss in nats of each id of a text except the first.

    The result is (N - 1,) for (N,) `ids`, and N must be at least 2. `nats_of_passages` explains the other arguments.
    """
    return nats_of_passages(model, [Passage(0, ids, 1)], block_size, stride, of_train=of_train, on_progress=on_progress)


@torch.inference_mode()
def nats_of_passages(
    model: LanguageModel,
    passages: Sequence[Passage],
    block_size: int,
    stride: int,
    *,
    of_train: bool = False,
    ngrams_see_before_window: bool = True,
    on_progress: OnProgress = no_progress,
    watch: Watch | None = None,
) -> npt.NDArray[np.float32]:
    """Return the losses in nats of the scored ids of all passages, (N,) for N scored ids, in the order of `passages`.

    Each id is predicted from the ids before it in its window. A batch may contain windows of different passages. All
    windows of a batch have the length of the longest window, so a window may extend beyond its passage. This does not
    change the losses, because a causal model does not see later positions. Logits are computed only for scored ids.

    The model runs in evaluation mode. Its previous mode is then restored. It runs in float32, unless the caller has
    enabled autocast.

    Args:
        model: model to score with.
        passages: texts to score, with at least one scored id in total.
        block_size: number of ids in a window.
        stride: distance between the starts of two windows, from 1 to `block_size`.
        of_train: whether the passages are from the training split. A model with n-grams then predicts each id as if
            this occurrence had not been counted (leave-one-out).
        ngrams_see_before_window: whether n-gram counts also use ids before the window, in the same passage.
        on_progress: called after each batch with the number of ids that the batch has scored.
        watch: called after each batch with the (n, V) logits for its n scored ids and with these (n,) ids. V is the
            vocabulary size.

    Raises:
        ValueError: no passage has a scored id, or `stride` is not from 1 to `block_size`.
    """
    n_scored = sum(len(passage.scored) for passage in passages)
    if not n_scored or not 1 <= stride <= block_size:
        raise ValueError(
            f"Cannot score {n_scored} ids with windows of {block_size} ids and a stride of {stride} ids. "
            "At least 1 id and a stride from 1 to the window length are needed."
        )
    nats, positions = [], []
    work = batches(passages, block_size, stride, ids_per_batch(model), model.n_before * ngrams_see_before_window)

    def logits_of(batch: Batch) -> Tensor:
        following = batch.ids[:, -1] if of_train else None
        logits = model(batch.ids[:, :-1], before=batch.before, following=following, wanted=batch.wanted)  # (n, V)
        return logits.float()

    for batch, logits in run_batches(model, work, logits_of):
        followed = batch.ids[:, 1:][batch.wanted].to(logits.device)  # (n,)
        nats.append(F.cross_entropy(logits, followed, reduction="none"))  # a copy to the CPU would wait for the GPU
        positions.append(batch.positions)
        if watch:
            watch(logits, followed)
        on_progress(len(followed))
    return torch.cat(nats).cpu().numpy()[np.concatenate(positions).argsort()]


@contextmanager
def _parallel_map(n_batches: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a function like `map` that computes several batches in parallel, each batch in one thread."""
    n_threads = torch.get_num_threads()
    if min(n_threads, n_batches) == 1:
        yield map
        return
    torch.set_num_threads(1)
    threads = ThreadPoolExecutor(n_threads)
    try:
        yield threads.map
    finally:
        threads.shutdown(cancel_futures=True)  # an interrupt does not wait for the remaining batches
        torch.set_num_threads(n_threads)


class Batch(NamedTuple):
    """B windows for one forward pass. T positions of each window predict the next id.

    ids: (B, T + 1). The first id of each window is only context.
    before: (B, n_before), the ids before each window, or NO_ID before the start of its passage.
    wanted: (B, T). `wanted[:, t]` is True if the id `ids[:, t + 1]`, which position t predicts, is scored.
    positions: (n,), index of each scored id in the concatenated ids of all passages.
    """

    ids: Tensor
    before: Tensor
    wanted: Tensor
    positions: Positions

    def to(self, device: torch.device) -> "Batch":
        """Return a copy with all tensors on `device`. The array `positions` is not copied."""
        return Batch(self.ids.to(device), self.before.to(device), self.wanted.to(device), self.positions)


def batches(
    passages: Sequence[Passage], block_size: int, stride: int, n_ids: int, n_before: int = 0
) -> Iterator[Batch]:
    """Yield batches of windows that score all passages. The longest windows come first.

    Args:
        passages: texts to score.
        block_size: maximum number of positions in a window.
        stride: distance between the starts of two windows.
        n_ids: maximum number of ids in a batch. A batch with a single window may have more ids.
        n_before: number of ids before each window to put into `Batch.before`.
    """
    ids = np.concatenate([*(passage.ids for passage in passages), np.zeros(block_size, passages[0].ids.dtype)])
    windows = _windows(passages, block_size, stride)
    _, starts, _, stops = windows.T
    lengths = np.minimum(_round_up(stops - 1 - starts), block_size)  # cut off the end, which is not scored
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        length = int(lengths[order[0]])
        n_windows = max(1, n_ids // length)
        begins, starts, firsts, stops = windows[order[:n_windows]].T[..., None]  # each (B, 1)
        order = order[n_windows:]
        targets = starts + np.arange(1, length + 1)  # (B, T)
        wanted = (firsts <= targets) & (targets < stops)  # (B, T)
        around = torch.from_numpy(ids_at(ids, starts + np.arange(-n_before, length + 1), begins))
        yield Batch(around[:, n_before:], around[:, :n_before], torch.from_numpy(wanted), targets[wanted])


def _windows(passages: Sequence[Passage], block_size: int, stride: int) -> npt.NDArray[np.int64]:
    """Return the W windows that score all passages, as a (W, 4) array with one window in each row."""
    lengths, n_context = np.array([(len(passage.ids), passage.n_context) for passage in passages]).T  # (P,) each
    skipped = np.maximum(0, n_context - (block_size - stride + 1))
    n_windows = 1 + np.maximum(0, -(-(lengths - skipped - 1 - block_size) // stride))
    number = np.arange(n_windows.sum()) - np.repeat(n_windows.cumsum() - n_windows, n_windows)  # in its passage
    passage_of = np.repeat(np.arange(len(passages)), n_windows)  # (W,) the passage of each window
    starts = skipped[passage_of] + number * stride
    firsts = np.maximum(n_context[passage_of], np.where(number == 0, 1, starts + block_size - stride + 1))
    windows = np.stack([np.zeros_like(starts), starts, firsts, lengths[passage_of]], axis=1)
    return windows + (lengths.cumsum() - lengths)[passage_of, None]


def _round_up(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Round each length up to one of the numbers 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    n_bits = np.frexp(lengths - 1)[1]  # exponent of the next power of two
    quarters = 2 ** np.maximum(n_bits - 2, 0)
    return -(-lengths // quarters) * quarters


def run_batches(
    model: LanguageModel, work: Iterable[Batch], compute: Callable[[Batch], R]
) -> Iterator[tuple[Batch, R]]:
    """Yield each batch of `work` together with the result of `compute` for this batch.

    `compute` gets the batch on the model's device, and the model is in evaluation mode. On a CPU, several batches are
    computed in parallel (see `_parallel_map`).
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    work = list(work)
    # new threads do not inherit autocast, and without autocast bf16 blocks reject float32 activations
    dtype, enabled = torch.get_autocast_dtype(device.type), torch.is_autocast_enabled(device.type)

    def on_device(batch: Batch) -> R:
        with torch.inference_mode(), torch.autocast(device.type, dtype, enabled=enabled):
            return compute(batch.to(device))

    with _parallel_map(len(work) if device.type == "cpu" else 1) as mapped:
        yield from zip(work, mapped(on_device, work), strict=True)
    model.train(was_training)


def nats_of_process(
    model: LanguageModel, ids: Ids, block_size: int, stride: int, rank: int, size: int
) -> npt.NDArray[np.float32]:
    """Score the part of a text that belongs to the process `rank` of `size` processes. Return the losses in nats.

    Each process scores consecutive windows. The results of all processes, concatenated by ascending rank, equal the
    result of `nats_of`. If there are fewer windows than processes, some results are empty.
    """
    n_windows = max(1, (len(ids) - 1 - block_size) // stride + 1)
    first, stop = (n_windows * edge // size for edge in (rank, rank + 1))
    if first == stop:
        return np.empty(0, np.float32)
    end = len(ids) if stop == n_windows else (stop - 1) * stride + block_size + 1
    scored = first * stride + block_size - stride + 1 if first else 1  # first scored id of this process
    n_context = min(scored, context_of(model, block_size, stride))
    return nats_of_passages(model, [Passage(0, ids[scored - n_context : end], n_context)], block_size, stride)
