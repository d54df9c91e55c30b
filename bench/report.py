"""The table of the measurements: reports/bench.json and .md, and the terminal."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from bench.figure import Curve, draw_race
from bench.measure import ROOT
from bench.rows import Goal, Measured, Row, Side
from bukva.core.files import read_json, write_json, write_text
from bukva.core.machine import CPUINFO, processor
from bukva.core.progress import duration, quantity

RowRecord = dict[str, Any]  # one row of reports/bench.json
Results = dict[str, Any]  # reports/bench.json: machine, versions, and the rows by name
PICTURE = "bench_race.png"
RACES = {"race", "race-network"}
PACKAGES = ("torch", "numpy", "dvc", "mlflow")
BF16_FLAGS = {"avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX"}
HEADER = ("row", "what", "ours", "plain", "unit", "score", "required", "aim", "met", "MB")


def record(row: Row, measured: Measured, seconds: float) -> RowRecord:
    """One row of reports/bench.json; `seconds` is how long measuring it took."""
    return {
        "what": row.what,
        "against": row.plain,
        "unit": row.unit,
        "ours": _side(measured.ours),
        "plain": _side(measured.plain),
        "scores": [_score(goal, measured.scores[goal.name]) for goal in row.goals],
        "notes": list(measured.notes),
        "details": measured.details,
        "command": f"make bench ONLY={row.name}",
        "commit": _commit(),
        "measured_in_seconds": round(seconds, 1),
    }


def merge(file: Path, fresh: dict[str, RowRecord], order: list[str]) -> Results:
    """The results with these rows in place of former ones of the same name; rows of another machine are removed.

    Args:
        file: reports/bench.json, which may be missing.
        fresh: rows by name.
        order: the names of all rows, in their order; rows with other names are removed.
    """
    here = machine()
    former = read_json(file) if file.exists() else {"machine": here, "rows": {}}
    kept = former["rows"] if former["machine"] == here else {}
    rows = kept | fresh
    return {"machine": here, "versions": versions(), "rows": {name: rows[name] for name in order if name in rows}}


def save(results: Results, folder: Path) -> None:
    """Write bench.json, bench.md and, where both races were measured, their picture."""
    write_json(folder / "bench.json", results)
    write_text(folder / "bench.md", page(results))
    if set(results["rows"]) >= RACES:
        draw_race(_curves(results["rows"]), folder / PICTURE)


def machine() -> dict[str, Any]:
    """Processor, cores and bf16 instructions; no name that identifies it."""
    flags = CPUINFO.read_text(encoding="utf-8") if CPUINFO.exists() else ""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "bf16": [name for flag, name in BF16_FLAGS.items() if re.search(rf"\b{flag}\b", flags)],
    }


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that the times depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def show(results: Results) -> None:
    """Print the table, the notes below it, and the machine."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, collapse_padding=True)  # so that it fits 80 columns
    for index, name in enumerate(HEADER):
        if name != "what":  # too long for a terminal, and printed while measuring
            table.add_column(name, justify="right" if index else "left", no_wrap=index == 0)
    for name, row in results["rows"].items():
        for cells in _lines(name, row):
            table.add_row(*(cell for cell, column in zip(cells, HEADER, strict=True) if column != "what"))
    console = Console(highlight=False)
    console.print(table)
    for line in [*_notes(results), _machine_line(results)]:
        console.print(line, soft_wrap=True)


def page(results: Results) -> str:
    """The content of reports/bench.md."""
    rows = results["rows"]
    cells = [HEADER, ["---"] * len(HEADER), *(line for name, row in rows.items() for line in _lines(name, row))]
    notes = [f"- {note}" for note in _notes(results)]
    how = [f"- `{row['command']}`: {duration(row['measured_in_seconds'])}, at {row['commit']}" for row in rows.values()]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            f"{_machine_line(results)}.",
            "",
            "Each row is bukva (ours), where possible beside a plain implementation of the same task (plain). Values",
            "are medians of runs in turn, each in a new process; MB is the peak of resident memory, ours / plain.",
            "",
            *(f"| {' | '.join(line)} |" for line in cells),
            "",
            *([f"![Loss by seconds of training]({PICTURE})", ""] if set(rows) >= RACES else []),
            *([*notes, ""] if notes else []),
            "Commands that measure one row again, with the time they took and the commit that was measured:",
            "",
            *how,
            "",
        ]
    )


def score_text(score: RowRecord) -> str:
    """A score for people, without its name."""
    return _number(score["value"], score["unit"])


def _lines(name: str, row: RowRecord) -> list[list[str]]:
    """The cells of a row: one line for each of its scores; shared cells are in the first line."""
    sides = (row["ours"], row["plain"])
    what = f"{row['what']}; plain: {row['against']}" if row["against"] else row["what"]
    medians = [_number(side["median"]) if side else "" for side in sides]
    memory = " / ".join(_number(side["peak_mb"]) for side in sides if side)
    unit = row["unit"] if any(sides) else ""
    lines = []
    for index, score in enumerate(row["scores"]):
        shared = [name, what, *medians, unit] if index == 0 else [f"· {score['name']}", "", "", "", ""]
        judged = [score_text(score), _bound(score, "required"), _bound(score, "aim"), score["met"]]
        lines.append([*shared, *judged, memory if index == 0 else ""])
    return lines


def _curves(rows: dict[str, RowRecord]) -> dict[str, Curve]:
    """Recipe -> its loss by seconds, of the first seed."""
    network, race = rows["race-network"]["details"], rows["race"]["details"]
    return {
        "nanoGPT's recipe, plain": network["plain_curve"],
        "GPT": network["curves"][0],
        "GPT with n-grams": race["curves"][0],
    }


def _notes(results: Results) -> list[str]:
    return [note for row in results["rows"].values() for note in row["notes"]]


def _machine_line(results: Results) -> str:
    """The machine and the versions in a line."""
    here = results["machine"]
    bf16 = f"bf16 by {' and '.join(here['bf16'])}" if here["bf16"] else "no bf16 in hardware"
    packages = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return f"{here['cpu']}, {here['cores']} cores, {bf16}; {packages}"


def _bound(score: RowRecord, key: str) -> str:
    if score[key] is None:
        return ""
    return ("≤ " if score["less_is_better"] else "") + _number(score[key], score["unit"])


def _number(value: float, unit: str = "") -> str:
    """Three digits and the unit, four of a loss: 12.3 s, 4.56M chars/s, 9.87x, 1.897 nats."""
    digits = quantity(value) if abs(value) >= 1000 else f"{value:.4g}" if unit == "nats" else f"{value:.3g}"
    return f"{digits}{unit}" if unit in ("x", "") else f"{digits} {unit}"


def _side(side: Side | None) -> RowRecord | None:
    if side is None:
        return None
    return {
        "median": side.median,
        "lowest": min(side.values),
        "highest": max(side.values),
        "runs": len(side.values),
        "peak_mb": round(side.peak_bytes / 1e6, 1),
    }


def _score(goal: Goal, value: float) -> RowRecord:
    return {
        "name": goal.name,
        "unit": goal.unit,
        "value": value,
        "required": goal.required,
        "aim": goal.aim,
        "less_is_better": goal.less_is_better,
        "met": goal.verdict(value),
    }


def _commit() -> str:
    """The commit that is measured, marked where files differ from it; the reports of former rows do not count."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!reports/bench*")
    return (_git("describe", "--always") or "unknown") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()
