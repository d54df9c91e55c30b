"""Randomness as a function of seed and step."""

import numpy as np
import torch


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's global generators, which initialisation and dropout draw from, for one step of one process.

    Randomness that is a function of these numbers needs no generator state in a checkpoint, and nothing that happens
    between two steps can disturb it.
    """
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1)))
