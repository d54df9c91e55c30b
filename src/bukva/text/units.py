"""Units of loss: models return the cross-entropy in nats, and results are reported in bits."""

import math


def bits(nats: float) -> float:
    """Nats to bits: divide by ln 2."""
    return nats / math.log(2)
