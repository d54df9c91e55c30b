"""A random order of n things that takes no memory: each number is computed from its place and a key.

A Feistel network maps the numbers below a * b one to one to themselves, with a * b barely above n; a number that lands
on n or above is mapped again until it is below n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, the
generalised Feistel network with cycle walking). A table of n places would take 8 bytes each.
"""

import math

import numpy as np
import numpy.typing as npt

ROUNDS = 8  # each changes both halves; with 4, orders of few things are not all equally likely (docs/dev/log.md)
Keys = npt.NDArray[np.uint64]  # (ROUNDS, 2)


def draw_keys(rng: np.random.Generator) -> Keys:
    """The key of one order."""
    return rng.integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)


def permuted(places: npt.NDArray[np.int64], n: int, keys: Keys) -> npt.NDArray[np.int64]:
    """(B,) places below n -> (B,) numbers below n; different places have different numbers."""
    columns = math.isqrt(n - 1) + 1
    rows = -(-n // columns)  # rows * columns is n, or a few above it
    numbers = _network(places, rows, columns, keys)
    while (outside := numbers >= n).any():
        numbers[outside] = _network(numbers[outside], rows, columns, keys)
    return numbers


def _network(numbers: npt.NDArray[np.int64], rows: int, columns: int, keys: Keys) -> npt.NDArray[np.int64]:
    """(B,) numbers below rows * columns, one to one to themselves."""
    row, column = (half.astype(np.uint64) for half in np.divmod(numbers, columns))
    for key_of_row, key_of_column in keys:
        row = (row + _mixed(column ^ key_of_row) % np.uint64(rows)) % np.uint64(rows)
        column = (column + _mixed(row ^ key_of_column) % np.uint64(columns)) % np.uint64(columns)
    return (row * np.uint64(columns) + column).astype(np.int64)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
