"""Inject faults and print what was lost: `python -m chaos [ROW ...]`."""

import re
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bukva.cli import console
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.progress import duration
from chaos import disturb, kill, sweeps
from chaos.setup import Row, Setup
from tests.support.project import ROOT

ROWS = (*kill.ROWS, *disturb.ROWS, *sweeps.ROWS)

N_WORKERS = 2  # rows that run in parallel; a row waits more than it computes
PAGE = ROOT / "docs" / "reliability-method.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)

app = typer.Typer(**console.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to run; by default all rows.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the table into docs/reliability-method.md.")] = False,
    list_rows: Annotated[bool, typer.Option("--list", help="List the rows and run none.")] = False,
) -> None:
    """Kill and break the pipeline in every known way, and print what survived."""
    known = {row.name: row for row in ROWS}
    if list_rows:
        for name, row in known.items():
            print(f"{name:<18}{row.paragraphs[0]}")
        return
    if write and only:
        raise BukvaError("chaos: --write replaces the whole table. Run it without row names.")
    if unknown := [name for name in only or () if name not in known]:
        raise BukvaError(f"chaos: unknown row {', '.join(unknown)}. Use {', '.join(known)}.")
    rows, started_at = [row for name, row in known.items() if not only or name in only], time.perf_counter()
    for row in rows:
        if not row.is_possible():
            print(f"{row.name}: skipped, because it is not possible on this machine: {row.paragraphs[1]}")
    # a job in the background ignores Ctrl-C, and so would every command that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bukva-chaos-", ignore_cleanup_errors=True) as scratch:
        lines = _run([row for row in rows if row.is_possible()], Path(scratch))
    took = f"In {duration(time.perf_counter() - started_at)}."
    table = Table("fault", "tried", "survived", "lost")
    for fault, _, *counts in lines:
        table.add_row(fault, *counts)
    Console(highlight=False).print(table)
    print(took)
    if write:
        head = [["fault", "injection and check", "tried", "survived", "lost"], ["---"] * 5]
        content = "".join(f"| {' | '.join(cells)} |\n" for cells in [*head, *lines])
        text = PAGE.read_text(encoding="utf-8")
        write_text(PAGE, TABLE.sub(lambda _: f"{content}\n{took}\n", text))
    if any(lost != "0" for *_, lost in lines):
        raise typer.Exit(1)


def _run(rows: list[Row], scratch: Path) -> list[list[str]]:
    """Run the rows in parallel, and return the cells of the table: fault, method, and the numbers of tries.

    Rows that run at the same time use different projects.
    """
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
        seconds, n, survived = duration(time.perf_counter() - started_at), len(verdicts), verdicts.count("")
        faults = "".join(f"\n    LOST: {fault}" for fault in verdicts if fault)
        print(f"{row.name}: {row.paragraphs[0]}: {survived} of {n} survived, in {seconds}{faults}", flush=True)
        return [*row.paragraphs, str(n), str(survived), str(n - survived)]

    with ThreadPoolExecutor(N_WORKERS) as pool:
        for setup in pool.map(Setup, (scratch / str(number) for number in range(min(N_WORKERS, len(rows))))):
            free.put(setup)
        return list(pool.map(run, rows))


if __name__ == "__main__":
    console.call(app)
