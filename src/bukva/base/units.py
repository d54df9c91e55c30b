"""Units of loss, in one place: cross-entropy comes out of the models in nats, the headline number is in bits."""

import math


def bits(nats: float) -> float:
    """Nats to bits: divide by ln 2."""
    return nats / math.log(2)
