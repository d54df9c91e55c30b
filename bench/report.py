"""Lines of results, and their table for the terminal, reports/bench.json and reports/bench.md."""

import importlib.metadata
import math
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.core.files import write_json, write_text
from bukva.core.progress import duration, quantity

# Content of reports/bench.json: `commit`, `machine`, `versions` and `rows`. Each row, by name, has its `lines` and the
# `seconds` that measuring it took.
Results = dict[str, Any]
MORE_IS_BETTER = {"chars/s", "%"}  # units of which more is better; of all other units, less is better
PACKAGES = ("torch", "numpy", "dvc", "mlflow")
HEADER = ("row", "what", "n", "ours", "plain", "ratio", "required", "met")
INTRODUCTION = """\
Each line measures bukva (ours), where possible against plain code for the same task (plain). Every run is a separate
process, and the runs of ours and plain alternate: A B, B A, A B. The columns ours and plain are medians of n runs. The
ratio is how many times better ours is: the geometric mean of n pairs, with a 95 % interval (Student's t of the
logarithms) if n is at least 2. Where nothing is compared, the worst run must meet the requirement."""


@dataclass(frozen=True)
class Ratio:
    """How many times better bukva is than the plain implementation, with a 95 % interval (None for a single pair)."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Line:
    """One line of the table: a quantity, with one value for each run of bukva and of the plain implementation."""

    what: str
    unit: str
    ours: list[float]
    plain: list[float]  # pairs with `ours`; empty if nothing is compared
    required: float | None = None  # minimum of the ratio; without `plain`, the bound that the worst run must meet

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


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect the times."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def save(results: Results, folder: Path) -> None:
    write_json(folder / "bench.json", results)
    write_text(folder / "bench.md", page(results))


def page(results: Results) -> str:
    """Return the content of reports/bench.md."""
    rows = results["rows"]
    cells = [HEADER, ["---"] * len(HEADER), *(line for name in rows for line in table(name, rows[name]["lines"]))]
    table_lines = [f"| {' | '.join(line)} |" for line in cells]
    times = ", ".join(f"{name} {duration(row['seconds'])}" for name, row in rows.items())
    took = f"`make bench` took {duration(sum(row['seconds'] for row in rows.values()))}: {times}."
    return "\n".join(["# Benchmarks", "", origin(results), "", INTRODUCTION, "", *table_lines, "", took, ""])


def origin(results: Results) -> str:
    """Return a line with commit, machine and versions of the results."""
    here = results["machine"]
    bf16 = f"bf16 by {' and '.join(here['bf16'])}" if here["bf16"] else "no bf16 in hardware"
    packages = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return f"Commit {results['commit']}; {here['cores']} cores of {here['cpu']}, {bf16}; {packages}."


def table(name: str, lines: list[dict[str, Any]]) -> list[list[str]]:
    """Return the cells of each line of a row, in the order of HEADER."""
    return [_cells("" if index else name, Line(**line)) for index, line in enumerate(lines)]


def _cells(name: str, line: Line) -> list[str]:
    ours, plain = (_number(statistics.median(side), line.unit) if side else "" for side in (line.ours, line.plain))
    if not line.plain and len(line.ours) > 1:
        ours += f", at worst {_number(line.worst, line.unit)}"
    ratio, required = "", ""
    if line.plain:
        interval = line.ratio.interval
        ratio = f"{line.ratio.value:.3g}x" + (f" ({interval[0]:.3g} to {interval[1]:.3g})" if interval else "")
    if line.required is not None:
        at_least = line.plain or line.unit in MORE_IS_BETTER
        required = ("≥ " if at_least else "≤ ") + _number(line.required, "x" if line.plain else line.unit)
    met = {None: "", True: "yes", False: "no"}[line.met]
    return [name, line.what, str(len(line.ours)), ours, plain, ratio, required, met]


def _number(value: float, unit: str) -> str:
    """Format a number with its unit: 12.3 s, 4.56M chars/s, 9.87x, and a loss with more digits: 1.8971 nats."""
    digits = quantity(value) if value >= 1000 else f"{value:.4f}" if unit == "nats" else f"{value:.3g}"
    return f"{digits}x" if unit == "x" else f"{digits} {unit}"
