"""Scoring: the nats of every character of a split.

The window rule: every character of a split except the first is scored once, given the text before it in its own work.
Windows of block_size have a stride of half a block; each window after the first scores only the characters that no
earlier window has scored, so each has at least block_size - stride characters of context. The counts of a model see the
K - 1 ids before each character, K the length of the longest n-gram, where those before its window are of the same work,
too. Scores under different window rules cannot be compared.
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
from torch import Tensor, nn

from bukva.core.progress import OnProgress, no_progress
from bukva.text.held_out import Passage
from bukva.text.ids import Ids, bits, ids_at

# Characters of one forward pass: on a CPU activations then stay in the cache of a core, and a GPU is busy.
BATCH_CHARS = {"cpu": 2**11, "cuda": 2**16}
# Of one forward pass, too: a GPT with n-grams has several probabilities of each id of a large vocabulary at each place.
BATCH_LOGITS = {"cpu": 2**22, "cuda": 2**26}
Watch = Callable[[Tensor, Tensor], None]  # gets (n, V) logits and (n,) ids that followed, once for each scored id
MOST_SCORED = 2**18  # ids of train, and of val during a training: more of them take minutes and tell little more
N_RUNS = 16  # places that text is taken from when it has more
Places = npt.NDArray[np.int64]
R = TypeVar("R")


@dataclass(frozen=True)
class Score:
    """A mean loss, and the number of characters that it is over."""

    nats_per_char: float
    chars: int

    @classmethod
    def of(cls, nats: npt.NDArray[np.float32], chars: int) -> "Score":
        """The score of (n,) nats of ids, which stand for `chars` characters; summed in float64."""
        return cls(float(nats.sum(dtype=np.float64)) / chars, chars)

    @property
    def bits_per_char(self) -> float:
        """The headline number."""
        return bits(self.nats_per_char)


def ids_per_batch(model: nn.Module) -> int:
    """How many ids a forward pass scores: fewer for a large vocabulary."""
    device = next(model.parameters()).device.type
    return max(1, min(BATCH_CHARS[device], BATCH_LOGITS[device] // int(model.config.vocab_size)))


def stride_of(block_size: int) -> int:
    """The stride of the window rule: half a block."""
    return max(1, block_size // 2)


def context_of(model: nn.Module, block_size: int, stride: int) -> int:
    """How many ids before the first that is scored the window rule uses at most.

    The window begins block_size - stride + 1 before it, and counts see n_before + 1.
    """
    return max(block_size - stride, int(model.config.n_before)) + 1


def evenly_spaced(ids: Ids, n_ids: int, n_before: int = 0) -> list[Passage]:
    """Runs of (N,) ids, spread evenly, with at least n_ids to score among them; all of ids where it has fewer.

    Each has n_before + 1 ids of context, where there are so many.
    """
    length = -(-n_ids // N_RUNS) + 1  # the first id of a run is context only
    if length * N_RUNS >= len(ids):
        return [Passage(0, ids, 1)]
    starts = np.linspace(0, len(ids) - length, N_RUNS).astype(np.int64).tolist()
    n_contexts = [min(start, n_before) + 1 for start in starts]
    return [Passage(0, ids[start + 1 - n : start + length], n) for start, n in zip(starts, n_contexts, strict=True)]


def spread_windows(ids: Ids, n: int, length: int) -> Tensor:
    """(N,) ids -> (n, length), windows spread evenly; fewer where the text is too short for n side by side."""
    starts = np.linspace(0, len(ids) - length, min(n, len(ids) // length)).astype(np.int64)
    return torch.from_numpy(ids[starts[:, None] + np.arange(length)].astype(np.int64))


def nats_of(
    model: nn.Module,
    ids: Ids,
    block_size: int,
    stride: int,
    *,
    of_train: bool = False,
    on_progress: OnProgress = no_progress,
) -> npt.NDArray[np.float32]:
    """(N,) ids -> (N - 1,) nats of ids[1:], each given the characters before it in its window; N >= 2."""
    return nats_of_passages(model, [Passage(0, ids, 1)], block_size, stride, of_train=of_train, on_progress=on_progress)


@torch.inference_mode()
def nats_of_passages(
    model: nn.Module,
    passages: Sequence[Passage],
    block_size: int,
    stride: int,
    *,
    of_train: bool = False,
    beyond: bool = True,
    on_progress: OnProgress = no_progress,
    watch: Watch | None = None,
) -> npt.NDArray[np.float32]:
    """The nats of all scored ids, (N,) one passage after the other, each given the characters before it in its window.

    Windows of all passages are computed together, longest first, and each batch is as long as its longest window. Only
    of the ids that are scored are probabilities computed. A window may reach beyond its passage: a causal model does
    not see what follows.

    of_train: the passages are of train, so a model that has counted it leaves out each scored occurrence.
    beyond: what the model counts sees the ids of the passage before the window, too.
    on_progress: called with the number of ids that were scored since the last call.
    watch: sees what the model predicted for them.

    Scores are computed in float32 whatever the model was trained in, and with dropout off; the model's mode is
    restored. 1 <= stride <= block_size.
    """
    n_scored = sum(len(passage.scored) for passage in passages)
    if not n_scored or not 1 <= stride <= block_size:
        raise ValueError(f"cannot score {n_scored} characters by windows of {block_size} with stride {stride}")
    nats, places = [], []
    work = batches(passages, block_size, stride, ids_per_batch(model), int(model.config.n_before) * beyond)

    def logits_of(batch: Batch) -> Tensor:
        following = batch.ids[:, -1] if of_train else None
        logits = model(batch.ids[:, :-1], before=batch.before, following=following, wanted=batch.wanted)  # (n, V)
        return logits.float()

    for batch, logits in computed(model, work, logits_of):
        followed = batch.ids[:, 1:][batch.wanted].to(logits.device)  # (n,)
        nats.append(F.cross_entropy(logits, followed, reduction="none"))  # a GPU computes on: nothing is read here
        places.append(batch.places)
        if watch:
            watch(logits, followed)
        on_progress(len(followed))
    return torch.cat(nats).cpu().numpy()[np.concatenate(places).argsort()]


@contextmanager
def _workers(n_batches: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a `map` that computes batches at the same time, one thread for each: threads that share a batch wait.

    So the bytes do not depend on the number of threads, unless there is one batch only.
    """
    n_threads = torch.get_num_threads()
    if min(n_threads, n_batches) == 1:
        yield map
        return
    torch.set_num_threads(1)
    threads = ThreadPoolExecutor(n_threads)
    try:
        yield threads.map
    finally:
        threads.shutdown(cancel_futures=True)  # who interrupts it does not wait for the batches that are left
        torch.set_num_threads(n_threads)


class Batch(NamedTuple):
    """Windows that are computed together.

    ids: (B, T + 1); the last T are those that may be scored.
    before: (B, n_before), the ids before each window in its passage, NO_ID where there are none.
    wanted: (B, T), which of these are scored.
    places: (n,), where those are among the ids of all passages.
    """

    ids: Tensor
    before: Tensor
    wanted: Tensor
    places: Places

    def to(self, device: torch.device) -> "Batch":
        """The same with its tensors on a device."""
        return Batch(self.ids.to(device), self.before.to(device), self.wanted.to(device), self.places)


def batches(
    passages: Sequence[Passage], block_size: int, stride: int, n_ids: int, n_before: int = 0
) -> Iterator[Batch]:
    """The windows of passages in batches of at most n_ids ids, or of one window; the longest first."""
    ids = np.concatenate([*(passage.ids for passage in passages), np.zeros(block_size, passages[0].ids.dtype)])
    windows = _windows(passages, block_size, stride)
    _, starts, _, stops = windows.T
    lengths = np.minimum(_rounded(stops - 1 - starts), block_size)  # without what is not scored at the end
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
    """(W, 4), where in the joined passages its passage begins, each window starts, scores first, and its passage stops.

    Each scores what no earlier one has scored, and nothing that is context. Of a longer context the first window holds
    as much as the others.
    """
    lengths, n_context = np.array([(len(passage.ids), passage.n_context) for passage in passages]).T  # (P,) each
    skipped = np.maximum(0, n_context - (block_size - stride + 1))
    n_windows = 1 + np.maximum(0, -(-(lengths - skipped - 1 - block_size) // stride))
    number = np.arange(n_windows.sum()) - np.repeat(n_windows.cumsum() - n_windows, n_windows)  # in its passage
    of = np.repeat(np.arange(len(passages)), n_windows)  # (W,) the passage of each
    starts = skipped[of] + number * stride
    firsts = np.maximum(n_context[of], np.where(number == 0, 1, starts + block_size - stride + 1))
    windows = np.stack([np.zeros_like(starts), starts, firsts, lengths[of]], axis=1)
    return windows + (lengths.cumsum() - lengths)[of, None]


def _rounded(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(W,) lengths, rounded up to 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 and so on: on a CPU each new shape takes time."""
    n_bits = np.frexp(lengths - 1)[1]  # the next power of two has this exponent
    quarters = 2 ** np.maximum(n_bits - 2, 0)
    return -(-lengths // quarters) * quarters


def computed(model: nn.Module, work: Iterable[Batch], compute: Callable[[Batch], R]) -> Iterator[tuple[Batch, R]]:
    """Yield each batch, and what `compute` makes of it on the device of the model, in evaluation mode."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    work = list(work)
    # a new thread does not inherit autocast, and without it bf16 blocks refuse float32 activations
    dtype, enabled = torch.get_autocast_dtype(device.type), torch.is_autocast_enabled(device.type)

    def on_device(batch: Batch) -> R:
        with torch.inference_mode(), torch.autocast(device.type, dtype, enabled=enabled):
            return compute(batch.to(device))

    with _workers(len(work) if device.type == "cpu" else 1) as mapped:
        yield from zip(work, mapped(on_device, work), strict=True)
    model.train(was_training)


def pieces(passage: Passage, block_size: int, stride: int, n_before: int, n_ids: int) -> list[Passage]:
    """A passage in pieces of about n_ids scored ids. Their windows, and the ids before, are those of the whole."""
    context = block_size - stride + 1 + n_before
    skipped = max(0, passage.n_context - (block_size - stride + 1))
    edges = np.arange(skipped + block_size + 1, len(passage.ids), stride)  # what each window but the first scores first
    edges = edges[:: max(1, n_ids // stride)][1:].tolist()
    starts, stops = [passage.n_context, *edges], [*edges, len(passage.ids)]
    n_contexts = [passage.n_context, *[context] * len(edges)]
    return [
        Passage(passage.work, passage.ids[start - n : stop], n)
        for start, stop, n in zip(starts, stops, n_contexts, strict=True)
    ]


def share_of_nats(
    model: nn.Module, ids: Ids, block_size: int, stride: int, rank: int, size: int
) -> npt.NDArray[np.float32]:
    """The share of process `rank` of `size` in `nats_of`: a run of windows; all shares in order are the whole."""
    n_windows = max(1, (len(ids) - 1 - block_size) // stride + 1)
    first, stop = (n_windows * edge // size for edge in (rank, rank + 1))
    if first == stop:
        return np.empty(0, np.float32)
    end = len(ids) if stop == n_windows else (stop - 1) * stride + block_size + 1
    scored = first * stride + block_size - stride + 1 if first else 1  # the first id that no other share scores
    n_context = min(scored, context_of(model, block_size, stride))
    return nats_of_passages(model, [Passage(0, ids[scored - n_context : end], n_context)], block_size, stride)
