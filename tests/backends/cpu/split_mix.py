"""SplitMix64 in Python's integers, as in the paper's listing, and the dropout that it decides."""

import math

import torch

WORD = 2**64 - 1


def split_mix_64(seed, i):
    """Number i after a seed."""
    z = (seed + i * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def dropout_factors(shape, p):
    """What dropout multiplies the elements of a tensor by; draws its seed from torch's generator.

    An element is dropped if its 16 bits are below the threshold; four elements share a number.
    """
    seed = torch.empty((), dtype=torch.int64).random_().item()
    bits = [split_mix_64(seed, i // 4) >> 16 * (i % 4) & 0xFFFF for i in range(math.prod(shape))]
    return torch.tensor([0.0 if b < round(p * 2**16) else 1 / (1 - p) for b in bits]).view(shape)
