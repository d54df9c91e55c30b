"""A line of the table: what was measured, run by run, and what follows from it."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Job = Callable[..., dict[str, Any]]
MORE_IS_BETTER = {"chars/s", "%"}  # units; less of any other is better


@dataclass(frozen=True)
class Ratio:
    """How many times as good as the plain side ours is, and its 95 % interval; None of a single pair."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Line:
    """One line.

    ours, plain: a value of each run; those of one pair have the same index. `plain` may be empty.
    required: of the ratio at least; without a plain side, of the worst run of ours.
    """

    what: str
    unit: str
    ours: list[float]
    plain: list[float]
    required: float | None = None

    @property
    def ratio(self) -> Ratio:
        """The geometric mean of the pairs. Its interval is that of the mean logarithm, by Student's t."""
        from bukva.compare.statistics.estimate import Estimate

        sign = 1 if self.unit in MORE_IS_BETTER else -1
        logs = [sign * math.log(ours / plain) for ours, plain in zip(self.ours, self.plain, strict=True)]
        mean, n = statistics.fmean(logs), len(logs)
        if n == 1:
            return Ratio(math.exp(mean), None)
        low, high = Estimate.of(mean, [(statistics.variance(logs) / n, n - 1)]).interval
        return Ratio(math.exp(mean), (math.exp(low), math.exp(high)))

    @property
    def worst(self) -> float:
        """The worst run of ours."""
        return min(self.ours) if self.unit in MORE_IS_BETTER else max(self.ours)

    @property
    def met(self) -> bool | None:
        """Whether the line is as required; None where nothing is."""
        if self.required is None:
            return None
        if self.plain:
            return self.ratio.value >= self.required
        return self.worst >= self.required if self.unit in MORE_IS_BETTER else self.worst <= self.required


Measure = Callable[[Path], list[Line]]  # measures a row, in a folder that all rows of a run share; its lines
