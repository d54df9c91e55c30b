"""Dropout (Srivastava et al. 2014), with a CPU's random numbers from a counter.

torch draws one number after another from one generator, which takes as long as a matrix product does here. On a CPU
each number is computed from its place instead, many at a time, as GPUs do: SplitMix64 (Steele, Lea & Flood 2014, "Fast
splittable pseudorandom number generators") of a seed from torch's generator. It is five times as fast
(docs/dev/log.md).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bukva.core.compiled import compiled

UNSIGNED = {2: torch.uint16, 4: torch.uint32, 8: torch.uint64}  # by bytes
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Dropout(nn.Module):
    """`dropout` in training, the identity in evaluation."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)."""
        return dropout(x, self.p) if self.training else x


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p)."""
    if p == 0.0:
        return x
    return x * kept(x.shape, p, x) if x.device.type == "cpu" else F.dropout(x, p)


def kept(shape: torch.Size, p: float, like: Tensor) -> Tensor:
    """A tensor of 0 with probability p (to 1/65536) and else 1 / (1 - p): from 16 random bits each."""
    factors, seed = like.new_empty(shape), torch.empty((), dtype=torch.int64).random_().item()
    unsigned = UNSIGNED[like.element_size()]
    factor = like.new_tensor(1 / (1 - p)).view(unsigned).numpy()[()]
    _fill(factors.view(-1).view(unsigned).numpy(), np.uint64(seed), np.uint64(round(p * 2**16)), factor)
    return factors


@compiled
def _fill(factors: npt.NDArray[Any], seed: np.uint64, threshold: np.uint64, factor: Any) -> None:
    """Fill (N,) floats, as unsigned integers of the same bits, with 0 below the threshold and else with the factor."""
    N, zero = len(factors), factor ^ factor
    for i in range(N // 4):  # the body has no condition, so that a processor computes several at once
        bits = _mixed(seed, i)
        for k in range(4):
            factors[4 * i + k] = factor if _quarter(bits, k) >= threshold else zero
    bits = _mixed(seed, N // 4)
    for k in range(N % 4):
        factors[N - N % 4 + k] = factor if _quarter(bits, k) >= threshold else zero


@compiled
def _mixed(seed: np.uint64, i: int) -> np.uint64:
    """64 random bits, number i of those of a seed."""
    z = seed + np.uint64(i) * STEP
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def _quarter(bits: np.uint64, k: int) -> np.uint64:
    return (bits >> np.uint64(16 * k)) & np.uint64(0xFFFF)
