"""A row of the table, and what measuring it returns."""

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
    """A number that a row is judged by, with a required value and an aim; without `required` it is only reported."""

    name: str
    unit: str
    required: float | None = None
    aim: float | None = None
    less_is_better: bool = False  # then `required` and `aim` are upper bounds

    def verdict(self, value: float) -> Verdict:
        """aim (reached), yes (as required), no, or nothing where nothing is required."""
        if self.required is None:
            return ""
        if self.aim is not None and self._reaches(value, self.aim):
            return "aim"
        return "yes" if self._reaches(value, self.required) else "no"

    def _reaches(self, value: float, bound: float) -> bool:
        return value <= bound if self.less_is_better else value >= bound


@dataclass(frozen=True)
class Side:
    """The results of one side in all its runs, in the unit of the row, and its peak memory."""

    values: tuple[float, ...]
    peak_bytes: int

    @staticmethod
    def of(outcomes: list[Outcome], key: str = "") -> "Side":
        """From a value that the jobs return, or from their seconds of wall time."""
        values = tuple(outcome.values[key] if key else outcome.seconds for outcome in outcomes)
        return Side(values, max(outcome.peak_bytes for outcome in outcomes))

    @property
    def median(self) -> float:
        """What ratios are computed from."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Measured:
    """The result of a row: its sides where it has them, and the value of each of its goals by name."""

    scores: dict[str, float]
    ours: Side | None = None
    plain: Side | None = None
    notes: tuple[str, ...] = ()  # sentences below the table
    details: dict[str, Any] = field(default_factory=dict)  # for the JSON only


@dataclass(frozen=True)
class Row:
    """One row. `measure` gets a folder that all rows of one run share and that is deleted after it.

    what: is measured.
    unit: of the results of both sides.
    plain: the implementation that ours is compared with, if any.
    """

    name: str
    what: str
    unit: str
    goals: tuple[Goal, ...]
    measure: Callable[[Path], Measured]
    plain: str = ""
