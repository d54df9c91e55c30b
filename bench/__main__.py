"""Run the benchmarks and write the report: `python -m bench [ROW ...]`."""

import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bench import gpu, report, rows
from bench.measure import ROOT, git, machine
from bukva.cli import stage as cli
from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.core.progress import duration

ROWS = {**rows.ROWS, "gpu": gpu.gpu}
REPORTS = ROOT / "reports"
UNFINISHED = ROOT / ".bukva" / "bench.json"  # rows of a run that was interrupted, or in which other rows failed

app = typer.Typer(**cli.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to measure; by default all rows.")] = None,
    list_rows: Annotated[bool, typer.Option("--list", help="List the rows and measure nothing.")] = False,
) -> None:
    """Compare the speed of bukva with plain code, print the results, and write them to reports/bench.md.

    The report is written only if all rows were measured at one commit without uncommitted changes. A row that fails,
    for example because its text cannot be downloaded, does not stop the other rows. Repeat the command at the same
    commit to measure the missing rows. If you name rows, their results are printed and not written.
    """
    if unknown := [name for name in only or () if name not in ROWS]:
        raise BukvaError(f"bench: unknown row {', '.join(unknown)}. Use {', '.join(ROWS)}.")
    if list_rows:
        for name in ROWS:
            print(f"{name:<12}{_description(name)}")
        return
    changed = git("status", "--porcelain", "--", ".", ":!reports/bench.*", folder=ROOT)
    if changed and not only:
        raise BukvaError("bench: files differ from the last commit. Commit or stash them, or name single rows.")
    commit = git("rev-parse", "--short=12", "HEAD", folder=ROOT) + ("-dirty" if changed else "")
    results: report.Results = {"commit": commit, "machine": machine(), "versions": report.versions(), "rows": {}}
    if not only and UNFINISHED.exists():
        unfinished = read_json(UNFINISHED)
        results = unfinished if unfinished | {"rows": {}} == results else results
    print(report.origin(results))
    failed = _measure(only or list(ROWS), results, save=not only)
    if failed:
        raise BukvaError(f"bench: no report was written, because rows failed (reasons above): {', '.join(failed)}.")
    if not only:
        results["rows"] = {name: results["rows"][name] for name in ROWS}
        report.save(results, REPORTS)
        UNFINISHED.unlink()


def _measure(names: list[str], results: report.Results, *, save: bool) -> list[str]:
    """Measure the rows that are missing in the results and print all rows; return the names of the rows that failed."""
    failed = []
    with tempfile.TemporaryDirectory(prefix="bukva-bench-", ignore_cleanup_errors=True) as scratch:
        for number, name in enumerate(names, start=1):
            if name not in results["rows"]:
                print(f"[{number}/{len(names)}] {name}: {_description(name)} ...", flush=True)
                started_at = time.perf_counter()
                try:
                    lines = ROWS[name](Path(scratch))
                except BukvaError as error:
                    print(f"    {name}: not measured: {error}", file=sys.stderr, flush=True)
                    failed.append(name)
                    continue
                seconds = round(time.perf_counter() - started_at, 1)
                results["rows"][name] = {"lines": [asdict(line) for line in lines], "seconds": seconds}
                if save:
                    write_json(UNFINISHED, results)
            row = results["rows"][name]
            for cells in report.table(name, row["lines"]):
                print("    " + " | ".join(filter(None, cells[1:])), flush=True)
            print(f"    took {duration(row['seconds'])}", flush=True)
    return failed


def _description(name: str) -> str:
    """Return the first line of the docstring of a row."""
    return (ROWS[name].__doc__ or "").partition("\n")[0].rstrip(".")


if __name__ == "__main__":
    cli.call(app)
