"""One line of the table of results: the measured values of all runs, and the statistics computed from them."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Job = Callable[..., dict[str, Any]]
MORE_IS_BETTER = {"chars/s", "%"}  # units of which more is better; of all other units, less is better


@dataclass(frozen=True)
class Ratio:
    """How many times better bukva is than the plain implementation, with a 95 % interval (None for a single pair)."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Line:
    """One line of the table of results.

    what: description of the measured quantity.
    ours, plain: one value per run of bukva and of the plain implementation. Values with the same index are a pair.
        `plain` is empty if nothing is compared.
    required: minimum of the ratio. If `plain` is empty, the bound that the worst value of `ours` must meet.
    """

    what: str
    unit: str
    ours: list[float]
    plain: list[float]
    required: float | None = None

    @property
    def ratio(self) -> Ratio:
        """Geometric mean of the ratios of all pairs, with the interval of the mean logarithm by Student's t."""
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
        """Worst value of `ours`."""
        return min(self.ours) if self.unit in MORE_IS_BETTER else max(self.ours)

    @property
    def met(self) -> bool | None:
        """Whether the requirement is met; None without a requirement."""
        if self.required is None:
            return None
        if self.plain:
            return self.ratio.value >= self.required
        return self.worst >= self.required if self.unit in MORE_IS_BETTER else self.worst <= self.required


Measure = Callable[[Path], list[Line]]  # measures a row and returns its lines; the folder is shared by all rows
