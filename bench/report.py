"""Lines of results, and their table for the terminal, reports/bench.json and reports/bench.md."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.core.files import write_json, write_text
from bukva.core.progress import duration, quantity

# Content of reports/bench.json: for each row, its origin (`measure.origin`), its `lines`, and the `seconds` it took.
Results = dict[str, dict[str, Any]]
MORE_IS_BETTER = {"chars/s", "%"}  # units of which more is better; of all other units, less is better
HEADER = ("row", "what", "n", "ours", "plain", "ratio", "required", "met")
INTRODUCTION = """\
Each line measures bukva (ours), where possible against plain code for the same task (plain). Every run is a separate
process, and the runs of ours and plain alternate: A B, B A, A B. The columns ours and plain are medians of n runs. The
ratio is how many times better ours is: the geometric mean of n pairs, with a 95 % interval (Student's t of the
logarithms) if n is at least 2. Where nothing is compared, the worst run must meet the requirement."""


@dataclass(frozen=True)
class Line:
    """One line of the table: a quantity, with one value for each run of bukva and of the plain implementation."""

    what: str
    unit: str
    ours: list[float]
    plain: list[float]  # pairs with `ours`; empty if nothing is compared
    required: float | None = None  # minimum of the ratio; without `plain`, the bound that the worst run must meet

    @property
    def ratio(self) -> float:
        """How many times better ours is: the geometric mean of all pairs."""
        return math.exp(statistics.fmean(self._logs))

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the ratio, by Student's t of the logarithms; None for a single pair."""
        from scipy.special import stdtrit

        logs, n = self._logs, len(self._logs)
        if n == 1:
            return None
        factor = math.exp(stdtrit(n - 1, 0.975) * statistics.stdev(logs) / n**0.5)
        return self.ratio / factor, self.ratio * factor

    @property
    def _logs(self) -> list[float]:
        sign = 1 if self.unit in MORE_IS_BETTER else -1
        return [sign * math.log(ours / plain) for ours, plain in zip(self.ours, self.plain, strict=True)]

    @property
    def worst(self) -> float:
        return min(self.ours) if self.unit in MORE_IS_BETTER else max(self.ours)

    @property
    def is_minimum(self) -> bool:
        """Whether the requirement is a minimum."""
        return bool(self.plain) or self.unit in MORE_IS_BETTER

    @property
    def met(self) -> bool | None:
        """Whether the requirement is met; None without a requirement."""
        if self.required is None:
            return None
        value = self.ratio if self.plain else self.worst
        return value >= self.required if self.is_minimum else value <= self.required


def save(results: Results, folder: Path) -> None:
    write_json(folder / "bench.json", results)
    write_text(folder / "bench.md", page(results))


def page(results: Results) -> str:
    """Return the content of reports/bench.md."""
    lines = [cells for name, row in results.items() for cells in table(name, row["lines"])]
    origins = [[name, duration(row["seconds"]), *origin(row)] for name, row in results.items()]
    tables = [
        *_markdown(HEADER, lines),
        "",
        *_markdown(("row", "took", "commit, date", "machine", "versions"), origins),
    ]
    return "\n".join(["# Benchmarks", "", INTRODUCTION, "", *tables, ""])


def _markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *lines)]


def origin(row: dict[str, Any]) -> list[str]:
    """Return the cells that say where and when a row was measured."""
    here = row["machine"]
    bf16 = f"bf16 by {' and '.join(here['bf16'])}" if here["bf16"] else "no bf16 in hardware"
    versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
    return [f"{row['commit']}, {row['date']}", f"{here['cores']} cores of {here['cpu']}, {bf16}", versions]


def table(name: str, lines: list[dict[str, Any]]) -> list[list[str]]:
    """Return the cells of each line of a row, in the order of HEADER."""
    return [_cells("" if index else name, Line(**line)) for index, line in enumerate(lines)]


def _cells(name: str, line: Line) -> list[str]:
    ours, plain = (_number(statistics.median(side), line.unit) if side else "" for side in (line.ours, line.plain))
    ratio = required = ""
    if line.plain:
        ratio = f"{line.ratio:.3g}x" + ("" if line.interval is None else " ({:.3g} to {:.3g})".format(*line.interval))
    elif len(line.ours) > 1:
        ours += f", at worst {_number(line.worst, line.unit)}"
    if line.required is not None:
        required = f"{'≥' if line.is_minimum else '≤'} {_number(line.required, 'x' if line.plain else line.unit)}"
    met = {None: "", True: "yes", False: "no"}[line.met]
    return [name, line.what, str(len(line.ours)), ours, plain, ratio, required, met]


def _number(value: float, unit: str) -> str:
    """Format a number with its unit: 12.3 s, 4.56M chars/s, 9.87x, and a loss with more digits: 1.8971 nats."""
    digits = quantity(value) if value >= 1000 else f"{value:.4f}" if unit == "nats" else f"{value:.3g}"
    return f"{digits}x" if unit == "x" else f"{digits} {unit}"
