"""Score text with sliding windows: compute the loss of each character, in nats.

The window rule defines the context of each character. Scores under different window rules cannot be compared. Every
character of a split except the first is scored once. Its context is text before it in the same work. A window has
`block_size` ids, and the next window starts half of `block_size` later. This distance is the stride. Each window after
the first scores only ids that no earlier window has scored. So these ids have at least `block_size - stride + 1` ids of
context. N-gram counts use the K - 1 ids before each id, where K is the length of the longest n-gram. These K - 1 ids
may be before the window, but must be in the same work.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

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


@dataclass(frozen=True)
class Score:
    """Score of a text: the mean loss of its characters in nats, and the number of its characters."""

    nats_per_char: float
    chars: int

    @classmethod
    def of(cls, nats: npt.NDArray[np.float32], chars: int) -> "Score":
        """Return the score of a text with `chars` characters, whose ids have the losses `nats`, (n,)."""
        return cls(float(nats.sum(dtype=np.float64)) / chars, chars)

    @property
    def bits_per_char(self) -> float:
        """Mean loss in bits per character, the main score of a model."""
        return bits(self.nats_per_char)


def ids_per_batch(model: LanguageModel) -> int:
    """Return the maximum number of ids in a forward pass of `model`."""
    device = next(model.parameters()).device.type
    return max(1, min(BATCH_CHARS[device], BATCH_LOGITS[device] // model.config.vocab_size))


def stride_of(block_size: int) -> int:
    """Return the stride of the window rule: half of `block_size`, but at least 1."""
    return max(1, block_size // 2)


def context_of(model: LanguageModel, block_size: int, stride: int) -> int:
    """Return how many ids before an id its window or the n-gram counts need to score it."""
    return max(block_size - stride, model.n_before) + 1


def evenly_spaced(ids: Ids, n_ids: int, n_before: int = 0) -> list[Passage]:
    """Return N_EXCERPTS evenly spaced excerpts of a text, or the whole text, in which at least `n_ids` ids are scored.

    Each excerpt begins with `n_before + 1` ids of context, or with fewer at the start of the text.
    """
    length = -(-n_ids // N_EXCERPTS) + 1  # the first id of an excerpt is only context
    if length * N_EXCERPTS >= len(ids):
        return [Passage(0, ids, 1)]
    starts = np.linspace(0, len(ids) - length, N_EXCERPTS).astype(np.int64).tolist()
    n_contexts = [min(start, n_before) + 1 for start in starts]
    return [Passage(0, ids[start + 1 - n : start + length], n) for start, n in zip(starts, n_contexts, strict=True)]


def nats_of(
    model: LanguageModel,
    ids: Ids,
    block_size: int,
    stride: int,
    *,
    of_train: bool = False,
    on_progress: OnProgress = no_progress,
) -> npt.NDArray[np.float32]:
    """Return the (N - 1,) losses in nats of (N,) `ids` except the first (see `nats_of_passages`)."""
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

    All windows of a batch have the length of the longest one, so a window may extend beyond its passage. This changes
    nothing, because a causal model does not see later positions. On a CPU, several batches are computed in parallel.

    With `of_train`, the passages are from the training split, and a model with n-grams predicts each id as if this
    occurrence had not been counted (leave-one-out). With `ngrams_see_before_window=False`, n-grams use only ids of the
    window. After each batch, `on_progress` is called with the number of its scored ids, and `watch` with their logits,
    (n, V), and with these ids, (n,).

    Raises:
        ValueError: the passages have no id to score, or the stride is not from 1 to `block_size`.
    """
    n_scored = sum(len(passage.scored) for passage in passages)
    if not n_scored or not 1 <= stride <= block_size:
        raise ValueError(
            f"Cannot score {n_scored} ids with windows of {block_size} ids and a stride of {stride} ids. "
            "At least 1 id and a stride from 1 to the window length are needed."
        )
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    n_before = model.n_before if ngrams_see_before_window else 0
    work = list(_batches(passages, block_size, stride, ids_per_batch(model), n_before))
    # new threads do not inherit autocast, and without autocast bf16 blocks reject float32 activations
    dtype, enabled = torch.get_autocast_dtype(device.type), torch.is_autocast_enabled(device.type)

    def logits_of(batch: _Batch) -> Tensor:
        with torch.inference_mode(), torch.autocast(device.type, dtype, enabled=enabled):
            ids, before, wanted = batch.ids.to(device), batch.before.to(device), batch.wanted.to(device)
            following = ids[:, -1] if of_train else None
            return model(ids[:, :-1], before=before, following=following, wanted=wanted).float()  # (n, V)

    nats, positions = [], []
    with _parallel_map(len(work) if device.type == "cpu" else 1) as mapped:
        for batch, logits in zip(work, mapped(logits_of, work), strict=True):
            followed = batch.ids[:, 1:][batch.wanted].to(device)  # (n,)
            # a copy to the CPU here would wait for the GPU
            nats.append(F.cross_entropy(logits, followed, reduction="none"))
            positions.append(batch.positions)
            if watch:
                watch(logits, followed)
            on_progress(len(followed))
    model.train(was_training)
    return torch.cat(nats).cpu().numpy()[np.concatenate(positions).argsort()]


def nats_of_process(
    model: LanguageModel, ids: Ids, block_size: int, stride: int, rank: int, size: int
) -> npt.NDArray[np.float32]:
    """Score the part of a text that belongs to the process `rank` of `size` processes. Return the losses in nats.

    The results of all processes, concatenated by rank, equal the result of `nats_of`. Some may be empty.
    """
    n_windows = max(1, (len(ids) - 1 - block_size) // stride + 1)
    first, stop = (n_windows * edge // size for edge in (rank, rank + 1))
    if first == stop:
        return np.empty(0, np.float32)
    end = len(ids) if stop == n_windows else (stop - 1) * stride + block_size + 1
    scored = first * stride + block_size - stride + 1 if first else 1  # first scored id of this process
    n_context = min(scored, context_of(model, block_size, stride))
    return nats_of_passages(model, [Passage(0, ids[scored - n_context : end], n_context)], block_size, stride)


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


# ---- windows


class _Batch(NamedTuple):
    """B windows for one forward pass. T positions of each window predict the next id."""

    ids: Tensor  # (B, T + 1); the first id of each window is only context
    before: Tensor  # (B, n_before), the ids before each window, or NO_ID before the start of its passage
    wanted: Tensor  # (B, T), True at position t if the id that it predicts, ids[:, t + 1], is scored
    positions: npt.NDArray[np.int64]  # (n,), index of each scored id in the joined ids of all passages


# A window, by indices in the joined ids of all passages: the first id of its passage, its own first id, the first id
# that it scores, and the end of its passage.
WINDOW = np.dtype([(name, np.int64) for name in ("begin", "start", "first", "stop")])


def _batches(passages: Sequence[Passage], block_size: int, stride: int, n_ids: int, n_before: int) -> Iterator[_Batch]:
    """Yield batches of windows with at most `n_ids` ids, but at least one window. The longest windows come first."""
    ids = np.concatenate([*(passage.ids for passage in passages), np.zeros(block_size, passages[0].ids.dtype)])
    windows = _windows(passages, block_size, stride)
    # cut off the end, which is not scored
    lengths = np.minimum(_round_up(windows["stop"] - 1 - windows["start"]), block_size)
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        length = int(lengths[order[0]])
        n = max(1, n_ids // length)
        chosen, order = windows[order[:n], None], order[n:]  # (B, 1)
        targets = chosen["start"] + np.arange(1, length + 1)  # (B, T)
        wanted = (chosen["first"] <= targets) & (targets < chosen["stop"])  # (B, T)
        around = ids_at(ids, chosen["start"] + np.arange(-n_before, length + 1), chosen["begin"])
        both = torch.from_numpy(around)  # (B, n_before + T + 1)
        yield _Batch(both[:, n_before:], both[:, :n_before], torch.from_numpy(wanted), targets[wanted])


def _windows(passages: Sequence[Passage], block_size: int, stride: int) -> npt.NDArray[np.void]:
    """Return the (W,) windows that score all passages, as an array of type WINDOW."""
    begin, parts = 0, []
    n_overlap = block_size - stride + 1  # number of ids of a window that are context, except in the first window
    for passage in passages:
        skipped, length = max(0, passage.n_context - n_overlap), len(passage.ids)
        n_windows = 1 + max(0, -(-(length - skipped - 1 - block_size) // stride))
        windows = np.empty(n_windows, WINDOW)
        windows["begin"], windows["stop"] = begin, begin + length
        windows["start"] = begin + skipped + stride * np.arange(n_windows)
        windows["first"] = windows["start"] + n_overlap
        windows["first"][0] = begin + passage.n_context
        parts.append(windows)
        begin += length
    return np.concatenate(parts)


def _round_up(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Round each length up to one of the numbers 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on."""
    n_bits = np.frexp(lengths - 1)[1]  # exponent of the next power of two
    quarters = 2 ** np.maximum(n_bits - 2, 0)
    return -(-lengths // quarters) * quarters
