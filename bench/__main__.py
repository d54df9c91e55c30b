"""Measure and report: python -m bench [ROW ...]."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench import counting, generation, growth, pipeline, playground, race, report, scoring, text, training
from bench.measure import ROOT
from bench.rows import Row
from bukva.cli import stage as cli
from bukva.core.errors import BukvaError
from bukva.core.progress import duration

MODULES = (race, counting, training, generation, playground, scoring, text, growth, pipeline)
ROWS = {row.name: row for module in MODULES for row in module.ROWS}
REPORTS = ROOT / "reports"

app = typer.Typer(**cli.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to measure; all rows by default.")] = None,
    list_rows: Annotated[bool, typer.Option("--list", help="List the rows and measure nothing.")] = False,
) -> None:
    """Measure bukva and the plain implementations, print the table, write reports/bench.json and .md.

    A row that fails, for example because its text cannot be downloaded, does not stop the others.
    """
    if list_rows:
        for row in ROWS.values():
            print(f"{row.name:<16}{row.what}")
        return
    rows = _select(only or list(ROWS))
    with tempfile.TemporaryDirectory(prefix="bukva-bench-", ignore_cleanup_errors=True) as scratch:
        results, failures = _measure(rows, Path(scratch))
    if results:
        measured = [row.name for row in rows if row.name not in failures]
        report.show({**results, "rows": {name: results["rows"][name] for name in measured}})
    if failures:
        raise BukvaError(
            f"bench: {len(failures)} of {len(rows)} rows not measured: {', '.join(failures)} (reasons above)."
        )


def _select(names: list[str]) -> list[Row]:
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise BukvaError(f"bench: unknown row {', '.join(unknown)}; use {', '.join(ROWS)}.")
    return [row for name, row in ROWS.items() if name in names]


def _measure(rows: list[Row], scratch: Path) -> tuple[report.Results, dict[str, str]]:
    """All results, saved after each row and empty if no row was measured; and the reasons of the rows that failed."""
    results: report.Results = {}
    failures: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        print(f"[{number}/{len(rows)}] {row.name}: {row.what} ...", flush=True)
        started_at = time.perf_counter()
        try:
            measured = row.measure(scratch)
        except BukvaError as error:
            reason = _reason(str(error), failures)
            print(f"    {row.name}: not measured: {reason}", file=sys.stderr, flush=True)
            failures[row.name] = str(error)
            continue
        record = report.record(row, measured, time.perf_counter() - started_at)
        results = report.merge(REPORTS / "bench.json", {row.name: record}, list(ROWS))
        report.save(results, REPORTS)
        seconds = duration(record["measured_in_seconds"])
        print(f"    {report.score_text(record['scores'][0])}; took {seconds}", flush=True)
    return results, failures


def _reason(sentence: str, failures: dict[str, str]) -> str:
    """The sentence, or the row that has failed with the same one."""
    former = next((name for name, reason in failures.items() if reason == sentence), None)
    return f"the same reason as {former}" if former else sentence


if __name__ == "__main__":
    cli.call(app)
