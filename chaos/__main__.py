"""Break things and report: python -m chaos [ROW ...]."""

import re
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bukva import cli
from bukva.errors import BukvaError
from bukva.files import write_text
from bukva.units import duration
from chaos.project import ROOT
from chaos.rows import ROWS, Row
from chaos.scene import Scene

PAGE = ROOT / "docs" / "reliability.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.DOTALL)

app = typer.Typer(**cli.STYLE)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Argument(help="Rows to work; all without any.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the table into docs/reliability.md.")] = False,
    list_rows: Annotated[bool, typer.Option("--list", help="Name the rows and work none.")] = False,
) -> None:
    """Kill and break the pipeline in every way we know, and print what survived."""
    if list_rows:
        for row in ROWS:
            print(f"{row.name:<14}{row.what}")
        return
    rows, started_at = _chosen(only or [row.name for row in ROWS]), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bukva-chaos-", ignore_cleanup_errors=True) as scratch:
        results = _work(rows, Path(scratch))
    _show(results, time.perf_counter() - started_at)
    if write:
        text = PAGE.read_text(encoding="utf-8")
        write_text(PAGE, TABLE.sub(lambda _: _markdown(results), text))
    if any(filter(None, [fault for lost in results.values() for fault in lost])):
        raise typer.Exit(1)


def _chosen(names: list[str]) -> list[Row]:
    if unknown := [name for name in names if name not in {row.name for row in ROWS}]:
        known = ", ".join(row.name for row in ROWS)
        raise BukvaError(f"chaos: no row is called {', '.join(unknown)}; the rows are {known}.")
    return [row for row in ROWS if row.name in names]


def _work(rows: list[Row], scratch: Path) -> dict[Row, list[str]]:
    print("[0] a small project, run once undisturbed ...", flush=True)
    scene, results = Scene(scratch), {}
    for number, row in enumerate(rows, start=1):
        print(f"[{number}/{len(rows)}] {row.name}: {row.what} ...", flush=True)
        started_at = time.perf_counter()
        try:
            lost = row.work(scene, row.tries)
        except AssertionError as error:  # a command that was to end well did not
            lost = [str(error)]
        results[row] = lost
        for fault in filter(None, lost):
            print(f"    LOST: {fault}", flush=True)
        seconds = duration(time.perf_counter() - started_at)
        print(f"    {lost.count('')} of {len(lost)} survived, in {seconds}", flush=True)
    return results


def _show(results: dict[Row, list[str]], seconds: float) -> None:
    table = Table("fault", *(f"{name}" for name in ("tried", "survived", "lost")))
    for row, lost in results.items():
        table.add_row(row.what, str(len(lost)), str(lost.count("")), str(len(lost) - lost.count("")))
    Console(highlight=False).print(table)
    print(f"In {duration(seconds)}.")


def _markdown(results: dict[Row, list[str]]) -> str:
    head = "| fault | how | tried | survived | lost |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {row.what} | {row.how} | {len(lost)} | {lost.count('')} | {len(lost) - lost.count('')} |\n"
        for row, lost in results.items()
    )


if __name__ == "__main__":
    cli.call(app)
