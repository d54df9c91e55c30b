"""Time budgets: from a text such as 1h30min to seconds."""

import re
from dataclasses import dataclass

from bukva.core.errors import BukvaError

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
EXAMPLES = "90s, 10min, 1h30min or 2h"
LONGEST = 30 * 24 * 3600  # seconds


@dataclass(frozen=True)
class Budget:
    """The time limit of stage train-gpt, the part of it before the first update, and the length of train."""

    seconds: float
    startup_seconds: float
    train_chars: int


def parse_budget(text: str) -> float:
    """The seconds of a budget such as 90s, 10min, 1h30min or 2h.

    Raises:
        BukvaError: it is not a time, or not between 0 and 30 days.
    """
    found = BUDGET.fullmatch(text)
    if not text or found is None:
        raise BukvaError(f"BUDGET {text!r}: not a time with its unit (h, min, s); use for example {EXAMPLES}.")
    seconds = sum(float(number or 0) * size for number, size in zip(found.groups(), UNITS.values(), strict=True))
    if not 0 < seconds <= LONGEST:
        raise BukvaError(f"BUDGET {text!r}: out of range; use more than 0 and at most 30 days, for example {EXAMPLES}.")
    return seconds
