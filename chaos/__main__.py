"""Inject faults and print what was lost: `python -m chaos [ROW ...]`."""

import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bukva.cli import stage as cli
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.progress import duration
from chaos import disturb, kill, sweeps
from chaos.project import ROOT
from chaos.row import Row
from chaos.setup import Setup

ROWS = (*kill.ROWS, *disturb.ROWS, *sweeps.ROWS)

N_WORKERS = 2  # rows that run in parallel; a row waits more than it computes
PAGE = ROOT / "docs" / "reliability-method.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)

Verdicts = dict[Row, list[str]]

app = typer.Typer(**cli.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to run; by default all rows.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the table into docs/reliability-method.md.")] = False,
    list_rows: Annotated[bool, typer.Option("--list", help="List the rows and run none.")] = False,
) -> None:
    """Kill and break the pipeline in every known way, and print what survived."""
    if list_rows:
        for row in ROWS:
            print(f"{row.name:<18}{row.paragraphs[0]}")
        return
    if write and only:
        raise BukvaError("chaos: --write replaces the whole table. Run it without row names.")
    rows, started_at = _chosen(only or [row.name for row in ROWS]), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bukva-chaos-", ignore_cleanup_errors=True) as scratch:
        results = _run(rows, Path(scratch))
    took = f"In {duration(time.perf_counter() - started_at)}."
    _print(results, took)
    if write:
        text = PAGE.read_text(encoding="utf-8")
        write_text(PAGE, TABLE.sub(lambda _: f"{_markdown(results)}\n{took}\n", text))
    if any(fault for verdicts in results.values() for fault in verdicts):
        raise typer.Exit(1)


def _chosen(names: list[str]) -> list[Row]:
    known = [row.name for row in ROWS]
    if unknown := [name for name in names if name not in known]:
        raise BukvaError(f"chaos: unknown row {', '.join(unknown)}. Use {', '.join(known)}.")
    chosen = [row for row in ROWS if row.name in names]
    for row in chosen:
        if not row.is_possible():
            print(f"{row.name}: skipped, because it is not possible on this machine: {row.paragraphs[1]}")
    return [row for row in chosen if row.is_possible()]


def _run(rows: list[Row], scratch: Path) -> Verdicts:
    """Run the rows in parallel and return their verdicts. Rows that run at the same time use different projects."""
    print("The pipeline of a small project runs without interruption ...", flush=True)
    free: SimpleQueue[Setup] = SimpleQueue()

    def run(row: Row) -> list[str]:
        setup, started_at = free.get(), time.perf_counter()
        try:
            verdicts = row.verdicts(setup)
        except Exception as error:  # a command failed or did not end in time; the other rows still run
            verdicts = [f"{type(error).__name__}: {error}"]
        finally:
            free.put(setup)
        seconds = duration(time.perf_counter() - started_at)
        faults = "".join(f"\n    LOST: {fault}" for fault in verdicts if fault)
        survived = f"{verdicts.count('')} of {len(verdicts)} survived"
        print(f"{row.name}: {row.paragraphs[0]}: {survived}, in {seconds}{faults}", flush=True)
        return verdicts

    with ThreadPoolExecutor(N_WORKERS) as pool:
        for setup in pool.map(Setup, (scratch / str(number) for number in range(min(N_WORKERS, len(rows))))):
            free.put(setup)
        return dict(zip(rows, pool.map(run, rows), strict=True))


def _print(results: Verdicts, took: str) -> None:
    table = Table("fault", "tried", "survived", "lost")
    for row, verdicts in results.items():
        table.add_row(row.paragraphs[0], *_counts(verdicts))
    Console(highlight=False).print(table)
    print(took)


def _markdown(results: Verdicts) -> str:
    head = "| fault | injection and check | tried | survived | lost |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {' | '.join((*row.paragraphs, *_counts(verdicts)))} |\n" for row, verdicts in results.items()
    )


def _counts(verdicts: list[str]) -> tuple[str, str, str]:
    """Return the cells of the columns tried, survived and lost."""
    survived = verdicts.count("")
    return str(len(verdicts)), str(survived), str(len(verdicts) - survived)


if __name__ == "__main__":
    cli.call(app)
