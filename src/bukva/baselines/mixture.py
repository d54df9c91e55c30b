"""Two models averaged: does one know anything that the other does not?

The mixture gives each character half the probability of one model and half of the other. It is never worse than the
better of the two by more than one bit per character, and better than both only where each model is right about
characters that the other misses. So the mixture of a GPT and the best n-gram model tells whether the GPT has learned
anything that counting does not find.
"""

import numpy as np

from bukva.base.ids import Nats


def mixture(nats_a: Nats, nats_b: Nats) -> Nats:
    """The nats of two models, (N,) and (N,) -> (N,) of the mean of their probabilities."""
    # the sum of probabilities by its logarithm: a probability below 1e-308 would be 0
    log_sum = np.logaddexp(-nats_a.astype(np.float64), -nats_b.astype(np.float64))  # (N,)
    return (np.log(2) - log_sum).astype(np.float32)
