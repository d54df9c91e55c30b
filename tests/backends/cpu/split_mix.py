"""Reference implementation of SplitMix64 with Python's integers, as in the paper's listing, and of dropout with it."""

import math

import torch

WORD = 2**64 - 1


def split_mix_64(seed, i):
    """Return random number `i` of the sequence that starts at `seed`."""
    z = (seed + i * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def dropout_factors(shape, p):
    """Return the factors by which dropout multiplies a tensor of this shape, with a seed from torch's generator.

    Four elements share one 64-bit number. An element is dropped if its 16 bits are below the threshold.
    """
    seed = torch.empty((), dtype=torch.int64).random_().item()
    bits = [split_mix_64(seed, i // 4) >> 16 * (i % 4) & 0xFFFF for i in range(math.prod(shape))]
    return torch.tensor([0.0 if b < round(p * 2**16) else 1 / (1 - p) for b in bits]).view(shape)
