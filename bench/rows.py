"""What a row of the table is, and what measuring it gives."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.measure import Outcome

Job = Callable[..., dict[str, Any]]
Verdict = Literal["aim", "yes", "no", ""]


@dataclass(frozen=True)
class Goal:
    """A number that a row is judged by, and what it should come to; without `at_least` it is only reported."""

    name: str
    unit: str
    at_least: float | None = None
    aim: float | None = None
    less_is_better: bool = False  # `at_least` and `aim` are then the most it may be

    def verdict(self, value: float) -> Verdict:
        """aim (reached), yes (at least what is asked), no, or nothing where nothing is asked."""
        if self.at_least is None:
            return ""
        if self.aim is not None and self._reaches(value, self.aim):
            return "aim"
        return "yes" if self._reaches(value, self.at_least) else "no"

    def _reaches(self, value: float, bound: float) -> bool:
        return value <= bound if self.less_is_better else value >= bound


@dataclass(frozen=True)
class Side:
    """What one side came to in each of its runs, in the unit of the row, and the most memory it took."""

    values: tuple[float, ...]
    peak_bytes: int

    @staticmethod
    def of(outcomes: list[Outcome], key: str = "") -> "Side":
        """From a value that the jobs give, or from their seconds of wall time."""
        values = tuple(outcome.values[key] if key else outcome.seconds for outcome in outcomes)
        return Side(values, max(outcome.peak_bytes for outcome in outcomes))

    @property
    def median(self) -> float:
        """What ratios are made of."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Measured:
    """What a row came to: its sides where it has them, and the value of each of its goals by name."""

    scores: dict[str, float]
    ours: Side | None = None
    against: Side | None = None
    notes: tuple[str, ...] = ()  # sentences for below the table
    details: dict[str, Any] = field(default_factory=dict)  # for the JSON alone


@dataclass(frozen=True)
class Row:
    """One thing that is measured. `measure` gets a folder that all rows of one run share and that vanishes after it."""

    name: str
    what: str
    unit: str
    goals: tuple[Goal, ...]
    measure: Callable[[Path], Measured]
    against: str = ""
