"""Units of loss and of text, in one place.

Cross-entropy comes out of the models in nats; the headline number is in bits.
"""

import math


def bits(nats: float) -> float:
    """Nats to bits: divide by ln 2."""
    return nats / math.log(2)


def quantity(n: float) -> str:
    """A count for people: 950, 12.3k, 4.56M, 1.20G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= 0.9995 * size:  # 999.9k would be 1000k
            digits = 2 if n < 9.995 * size else 1 if n < 99.95 * size else 0
            return f"{n / size:.{digits}f}{unit}"
    return f"{n:.0f}"


def duration(seconds: float) -> str:
    """Seconds for people: 8 s, 2 min 05 s, 3 h 20 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
