"""Scoring: the nats of every character of a split.

The window rule: every character of a split except the first is scored once. Windows of block_size have a stride of
half a block; each window after the first scores only the characters that no earlier window has scored, so each has at
least block_size - stride characters of context. Scores under different window rules cannot be compared.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.base.ids import Ids
from bukva.base.units import bits

# Characters of one forward pass: on a CPU activations then stay in the cache, and a GPU is busy.
BATCH_CHARS = {"cpu": 2**12, "cuda": 2**16}
N_RUNS = 16  # places that text is taken from when scoring all of it takes too long


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


def stride_of(block_size: int) -> int:
    """The stride of the window rule: half a block."""
    return max(1, block_size // 2)


def evenly_spaced(ids: Ids, n_ids: int) -> list[Ids]:
    """Runs of (N,) ids, spread evenly, with at least n_ids to score among them; all of ids where it has fewer."""
    length = -(-n_ids // N_RUNS) + 1  # the first character of a run is not scored
    if length * N_RUNS >= len(ids):
        return [ids]
    return [ids[start : start + length] for start in np.linspace(0, len(ids) - length, N_RUNS).astype(np.int64)]


def spread_windows(ids: Ids, n: int, length: int) -> Tensor:
    """(N,) ids -> (n, length), windows spread evenly; fewer where the text is too short for n side by side."""
    starts = np.linspace(0, len(ids) - length, min(n, len(ids) // length)).astype(np.int64)
    return torch.from_numpy(ids[starts[:, None] + np.arange(length)].astype(np.int64))


@torch.inference_mode()
def nats_of(model: nn.Module, ids: Ids, block_size: int, stride: int) -> npt.NDArray[np.float32]:
    """(N,) ids -> (N - 1,) nats of ids[1:], each given the characters before it in its window.

    Scores are computed in float32 whatever the model was trained in, and with dropout off; the model's mode is
    restored. N >= 2, 1 <= stride <= block_size.
    """
    if len(ids) < 2 or not 1 <= stride <= block_size:
        raise ValueError(f"cannot score {len(ids)} characters by windows of {block_size} with stride {stride}")
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    nats = np.empty(len(ids) - 1, np.float32)
    n_full = max(0, (len(nats) - block_size) // stride + 1)  # windows that are block_size long
    starts = np.arange(n_full) * stride
    for batch in np.array_split(starts, -(-n_full * block_size // BATCH_CHARS[device.type]) or 1):
        if len(batch):
            at = batch[:, None] + np.arange(block_size + 1)  # (B, T + 1)
            scored = _window_nats(model, ids[at], device)  # (B, T)
            nats[at[:, -stride - 1 : -1]] = scored[:, -stride:]
            if batch[0] == 0:
                nats[:block_size] = scored[0]
    done = (n_full - 1) * stride + block_size if n_full else 0
    if done < len(nats):  # the rest is shorter than a stride: one last, shorter window
        start = n_full * stride
        nats[done:] = _window_nats(model, ids[None, start:], device)[0, done - start :]
    model.train(was_training)
    return nats


def share_of_nats(
    model: nn.Module, ids: Ids, block_size: int, stride: int, rank: int, size: int
) -> npt.NDArray[np.float32]:
    """The share of process `rank` of `size` in `nats_of`: a run of windows; all shares in order are the whole."""
    n_windows = max(1, (len(ids) - 1 - block_size) // stride + 1)
    first, stop = (n_windows * edge // size for edge in (rank, rank + 1))
    if first == stop:
        return np.empty(0, np.float32)
    end = len(ids) if stop == n_windows else (stop - 1) * stride + block_size + 1
    others = block_size - stride if first else 0  # ids that the share before this one scores
    return nats_of(model, ids[first * stride : end], block_size, stride)[others:]


def _window_nats(model: nn.Module, ids: Ids, device: torch.device) -> npt.NDArray[np.float32]:
    """(B, T + 1) ids -> (B, T) nats of all but the first."""
    window = torch.from_numpy(ids.astype(np.int64)).to(device)
    logits: Tensor = model(window[:, :-1])  # (B, T, V)
    nats = F.cross_entropy(logits.flatten(0, 1).float(), window[:, 1:].flatten(), reduction="none")
    return nats.view(len(ids), -1).cpu().numpy()
