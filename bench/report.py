"""The table of what was measured: reports/bench.json and .md, and the terminal."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from bench.measure import ROOT
from bench.rows import Goal, Measured, Row, Side
from bukva.base.files import read_json, write_json, write_text
from bukva.base.progress import duration, quantity

Record = dict[str, Any]  # of one row
Report = dict[str, Any]  # machine, versions, and the rows by name
PACKAGES = ("torch", "numpy", "dvc", "mlflow")
BF16_FLAGS = {"avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX"}
HEADER = ("row", "what", "ours", "against", "unit", "score", "at least", "aim", "met", "MB")


def record(row: Row, measured: Measured, seconds: float) -> Record:
    """What reports/bench.json says of one row; `seconds` is what measuring it took."""
    return {
        "what": row.what,
        "against": row.against,
        "unit": row.unit,
        "ours": _side(measured.ours),
        "theirs": _side(measured.against),
        "scores": [_score(goal, measured.scores[goal.name]) for goal in row.goals],
        "notes": list(measured.notes),
        "details": measured.details,
        "command": f"make bench ONLY={row.name}",
        "commit": _git("describe", "--always", "--dirty"),
        "measured_in_seconds": round(seconds, 1),
    }


def merge(file: Path, fresh: dict[str, Record], order: list[str]) -> Report:
    """The report with these rows in place of those it had of the same name; rows of another machine go.

    Args:
        file: reports/bench.json, which need not be there.
        fresh: rows by name.
        order: of the rows; one that it does not name is no row any more.
    """
    here = machine()
    former = read_json(file) if file.exists() else {"machine": here, "rows": {}}
    kept = former["rows"] if former["machine"] == here else {}
    rows = kept | fresh
    return {"machine": here, "versions": versions(), "rows": {name: rows[name] for name in order if name in rows}}


def save(report: Report, folder: Path) -> None:
    """Write bench.json and bench.md."""
    write_json(folder / "bench.json", report)
    write_text(folder / "bench.md", page(report))


def machine() -> dict[str, Any]:
    """Processor, cores and what multiplies bf16; nothing that tells one machine from its like."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = told.get("flags", "").split()
    return {
        "cpu": told.get("model name", platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "bf16": [name for flag, name in BF16_FLAGS.items() if flag in flags],
    }


def versions() -> dict[str, str]:
    """Of Python and the packages that the times depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def show(report: Report) -> None:
    """Print the table, the notes below it, and on what it was measured."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, collapse_padding=True)  # so that it fits 80 columns
    for index, name in enumerate(HEADER):
        if name != "what":  # too long for a terminal, and told while measuring
            table.add_column(name, justify="right" if index else "left", no_wrap=index == 0)
    for name, row in report["rows"].items():
        for cells in _lines(name, row):
            table.add_row(*(cell for cell, column in zip(cells, HEADER, strict=True) if column != "what"))
    console = Console(highlight=False)
    console.print(table)
    for line in [*_notes(report), _told(report)]:
        console.print(line, soft_wrap=True)


def page(report: Report) -> str:
    """For reports/bench.md."""
    rows = report["rows"]
    cells = [HEADER, ["---"] * len(HEADER), *(line for name, row in rows.items() for line in _lines(name, row))]
    notes = [f"- {note}" for note in _notes(report)]
    how = [f"- `{row['command']}`: {duration(row['measured_in_seconds'])}, at {row['commit']}" for row in rows.values()]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            f"{_told(report)}.",
            "",
            "Medians of runs in turn, each a process of its own; MB is the peak of resident memory, ours / against.",
            "",
            *(f"| {' | '.join(line)} |" for line in cells),
            "",
            *([*notes, ""] if notes else []),
            "One row again, and what all of it cost:",
            "",
            *how,
            "",
        ]
    )


def score_text(score: Record) -> str:
    """A score for people; the first of a row needs no name."""
    return _number(score["value"], score["unit"])


def _lines(name: str, row: Record) -> list[list[str]]:
    """The cells of a row: one line for each of its scores, what they share in the first."""
    sides = (row["ours"], row["theirs"])
    what = f"{row['what']}; against {row['against']}" if row["against"] else row["what"]
    medians = [_number(side["median"]) if side else "" for side in sides]
    memory = " / ".join(_number(side["peak_mb"]) for side in sides if side)
    unit = row["unit"] if any(sides) else ""
    lines = []
    for index, score in enumerate(row["scores"]):
        shared = [name, what, *medians, unit] if index == 0 else [f"· {score['name']}", "", "", "", ""]
        judged = [score_text(score), _bound(score, "at_least"), _bound(score, "aim"), score["met"]]
        lines.append([*shared, *judged, memory if index == 0 else ""])
    return lines


def _notes(report: Report) -> list[str]:
    return [note for row in report["rows"].values() for note in row["notes"]]


def _told(report: Report) -> str:
    """The machine and the versions in a line."""
    here = report["machine"]
    bf16 = f"bf16 by {' and '.join(here['bf16'])}" if here["bf16"] else "no bf16 in hardware"
    packages = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    return f"{here['cpu']}, {here['cores']} cores, {bf16}; {packages}"


def _bound(score: Record, key: str) -> str:
    if score[key] is None:
        return ""
    return ("≤ " if score["less_is_better"] else "") + _number(score[key], score["unit"])


def _number(value: float, unit: str = "") -> str:
    """Three digits and the unit, four of a loss: 12.3 s, 4.56M chars/s, 9.87x, 1.897 nats."""
    digits = quantity(value) if abs(value) >= 1000 else f"{value:.4g}" if unit == "nats" else f"{value:.3g}"
    return f"{digits}{unit}" if unit in ("x", "") else f"{digits} {unit}"


def _side(side: Side | None) -> Record | None:
    if side is None:
        return None
    return {
        "median": side.median,
        "lowest": min(side.values),
        "highest": max(side.values),
        "runs": len(side.values),
        "peak_mb": round(side.peak_bytes / 1e6, 1),
    }


def _score(goal: Goal, value: float) -> Record:
    return {
        "name": goal.name,
        "unit": goal.unit,
        "value": value,
        "at_least": goal.at_least,
        "aim": goal.aim,
        "less_is_better": goal.less_is_better,
        "met": goal.verdict(value),
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
