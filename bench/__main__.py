"""Measure and report: python -m bench [ROW ...]."""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench import models, pipeline, report, text
from bench.measure import ROOT
from bench.rows import Row
from bukva.base.errors import BukvaError
from bukva.base.progress import duration
from bukva.stage import cli

ROWS = {row.name: row for row in (*models.ROWS, *text.ROWS, *pipeline.ROWS)}
REPORTS = ROOT / "reports"

app = typer.Typer(**cli.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to measure; all without any.")] = None,
    list_rows: Annotated[bool, typer.Option("--list", help="Name the rows and measure none.")] = False,
) -> None:
    """Measure bukva beside the plain way, print the table, write reports/bench.json and .md."""
    if list_rows:
        for row in ROWS.values():
            print(f"{row.name:<16}{row.what}")
        return
    rows = _chosen(only or list(ROWS))
    with tempfile.TemporaryDirectory(prefix="bukva-bench-", ignore_cleanup_errors=True) as scratch:
        whole = _measure(rows, Path(scratch))
    report.show({**whole, "rows": {row.name: whole["rows"][row.name] for row in rows}})


def _chosen(names: list[str]) -> list[Row]:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise BukvaError(f"bench: no row is called {', '.join(unknown)}; the rows are {', '.join(ROWS)}.")
    return [row for name, row in ROWS.items() if name in names]


def _measure(rows: list[Row], scratch: Path) -> report.Report:
    """The whole report, saved after each row, for a later one may fail."""
    for number, row in enumerate(rows, start=1):
        print(f"[{number}/{len(rows)}] {row.name}: {row.what} ...", flush=True)
        started_at = time.perf_counter()
        measured = row.measure(scratch)
        fresh = report.record(row, measured, time.perf_counter() - started_at)
        whole = report.merge(REPORTS / "bench.json", {row.name: fresh}, list(ROWS))
        report.save(whole, REPORTS)
        print(f"    {report.score_text(fresh['scores'][0])}; took {duration(fresh['measured_in_seconds'])}", flush=True)
    return whole


if __name__ == "__main__":
    cli.call(app)
