"""The table of the measurements: in the terminal, reports/bench.json and bench.md."""

import importlib.metadata
import platform
import statistics
from pathlib import Path
from typing import Any

from bench.rows import MORE_IS_BETTER, Line
from bukva.core.files import write_json, write_text
from bukva.core.progress import duration, quantity

# reports/bench.json: `commit`, `machine`, `versions`, and in `rows` by name the `lines` and `seconds` of measuring them
Results = dict[str, Any]
PACKAGES = ("torch", "numpy", "dvc", "mlflow")
HEADER = ("row", "what", "n", "ours", "plain", "ratio", "required", "met")
INTRODUCTION = """\
A line is bukva (ours), where possible beside plain code for the same task (plain). Each run is a process of its own,
and both sides run in turn: A B, B A, A B. Ours and plain are medians of n runs. The ratio says how many times as good
ours is: the geometric mean of n pairs, with its 95 % interval (Student's t of the logarithms; none of one pair).
Without a plain side, the worst run has to be as required."""


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that the times depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def save(results: Results, folder: Path) -> None:
    """Write bench.json and bench.md."""
    write_json(folder / "bench.json", results)
    write_text(folder / "bench.md", page(results))


def page(results: Results) -> str:
    """The content of reports/bench.md: a function of the results."""
    rows = results["rows"]
    cells = [HEADER, ["---"] * len(HEADER), *(line for name in rows for line in table(name, rows[name]["lines"]))]
    table_lines = [f"| {' | '.join(line)} |" for line in cells]
    times = ", ".join(f"{name} {duration(row['seconds'])}" for name, row in rows.items())
    took = f"`make bench` took {duration(sum(row['seconds'] for row in rows.values()))}: {times}."
    return "\n".join(["# Benchmarks", "", origin(results), "", INTRODUCTION, "", *table_lines, "", took, ""])


def origin(results: Results) -> str:
    """What was measured, and where, in a line."""
    here = results["machine"]
    bf16 = f"bf16 by {' and '.join(here['bf16'])}" if here["bf16"] else "no bf16 in hardware"
    packages = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return f"Commit {results['commit']}; {here['cores']} cores of {here['cpu']}, {bf16}; {packages}."


def table(name: str, lines: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of a row, in the order of HEADER."""
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
    """Three digits and the unit, more of a loss: 12.3 s, 4.56M chars/s, 9.87x, 1.8971 nats."""
    digits = quantity(value) if value >= 1000 else f"{value:.4f}" if unit == "nats" else f"{value:.3g}"
    return f"{digits}x" if unit == "x" else f"{digits} {unit}"
