"""How many seeds a comparison needs; to be asked before it is run."""

import math

from bukva.compare.statistics.estimate import Part, satterthwaite, smallest_detectable

CERTAIN: Part = (0.0, math.inf)  # a text without an error of its own


def resolved_by(k: int, sd: float, *, paired: bool = False, text: Part = CERTAIN) -> float:
    """The smallest difference that k seeds a side detect with 80 % probability, in bits per character; k >= 2.

    Args:
        k: seeds of each side.
        sd: the standard deviation between seeds of one setting; where paired, of the difference of two trainings.
        paired: whether both sides have the same seeds.
        text: the variance over the text and its degrees of freedom.
    """
    seeds: Part = (sd**2 / k, k - 1) if paired else (2 * sd**2 / k, 2 * (k - 1))
    return smallest_detectable((text[0] + seeds[0]) ** 0.5, satterthwaite([text, seeds]))
