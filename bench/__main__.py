"""Run the benchmarks and write the report: `python -m bench [ROW ...]`."""

import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bench import gpu, report, rows
from bench.measure import ROOT, git, origin
from bukva.cli import console
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.progress import duration

ROWS = {**rows.ROWS, "gpu": gpu.gpu}
REPORTS = ROOT / "reports"

app = typer.Typer(**console.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to measure; by default all rows.")] = None,
    list_rows: Annotated[bool, typer.Option("--list", help="List the rows and measure nothing.")] = False,
) -> None:
    """Compare the speed of bukva with plain code, print the results, and write them to reports/bench.md.

    Each row has its own commit, date and machine, and replaces only itself in the report. A row that fails, for example
    because its text cannot be downloaded, does not stop the other rows. With uncommitted changes, nothing is written.
    """
    if unknown := [name for name in only or () if name not in ROWS]:
        raise BukvaError(f"bench: unknown row {', '.join(unknown)}. Use {', '.join(ROWS)}.")
    if list_rows:
        for name in ROWS:
            print(f"{name:<12}{_description(name)}")
        return
    changed = git("status", "--porcelain", "--", ".", ":!reports/bench.*", folder=ROOT)
    if changed:
        print("Files differ from the last commit, so reports/bench.md will not change.", file=sys.stderr)
    if failed := _measure(only or list(ROWS), save=not changed):
        raise BukvaError(f'bench: rows failed (reasons above). Repeat them: make bench ONLY="{" ".join(failed)}"')


def _measure(names: list[str], *, save: bool) -> list[str]:
    """Measure and print the rows, and replace them in the report; return the names of the rows that failed."""
    failed, here, file = [], origin(ROOT), REPORTS / "bench.json"
    with tempfile.TemporaryDirectory(prefix="bukva-bench-", ignore_cleanup_errors=True) as scratch:
        for number, name in enumerate(names, start=1):
            print(f"[{number}/{len(names)}] {name}: {_description(name)} ...", flush=True)
            started_at = time.perf_counter()
            try:
                lines = [asdict(line) for line in ROWS[name](Path(scratch))]
            except BukvaError as error:
                print(f"    {name}: not measured: {error}", file=sys.stderr, flush=True)
                failed.append(name)
                continue
            seconds = round(time.perf_counter() - started_at, 1)
            for cells in report.table(name, lines):
                print("    " + " | ".join(filter(None, cells[1:])), flush=True)
            print(f"    took {duration(seconds)}", flush=True)
            if save and lines:  # a skipped row has no lines
                recorded = read_json(file) if file.exists() else {}
                recorded[name] = here | {"seconds": seconds, "lines": lines}
                report.save({each: recorded[each] for each in ROWS if each in recorded}, REPORTS)
    return failed


def _description(name: str) -> str:
    """Return the first line of the docstring of a row."""
    return (ROWS[name].__doc__ or "").partition("\n")[0].rstrip(".")


if __name__ == "__main__":
    console.call(app)
