"""Break things and report: python -m chaos [ROW ...]."""

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

from bukva.base.errors import BukvaError
from bukva.base.files import write_text
from bukva.base.progress import duration
from bukva.stage import cli
from chaos.project import ROOT
from chaos.rows import ROWS, Row
from chaos.scene import Scene

AT_A_TIME = 2  # rows: each waits more than it computes
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
    if write and only:
        raise BukvaError("chaos: --write takes all rows, for a few would replace the whole table.")
    rows, started_at = _chosen(only or [row.name for row in ROWS]), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bukva-chaos-", ignore_cleanup_errors=True) as scratch:
        results = _work(rows, Path(scratch))
    took = f"In {duration(time.perf_counter() - started_at)}."
    _show(results, took)
    if write:
        text = PAGE.read_text(encoding="utf-8")
        write_text(PAGE, TABLE.sub(lambda _: f"{_markdown(results)}\n{took}\n", text))
    if any(filter(None, [fault for lost in results.values() for fault in lost])):
        raise typer.Exit(1)


def _chosen(names: list[str]) -> list[Row]:
    if unknown := [name for name in names if name not in {row.name for row in ROWS}]:
        known = ", ".join(row.name for row in ROWS)
        raise BukvaError(f"chaos: no row is called {', '.join(unknown)}; the rows are {known}.")
    return [row for row in ROWS if row.name in names]


def _work(rows: list[Row], scratch: Path) -> dict[Row, list[str]]:
    """What each row lost; each in a scene that no other uses at the time."""
    print("A small project is run undisturbed ...", flush=True)
    free: SimpleQueue[Scene] = SimpleQueue()

    def work(row: Row) -> list[str]:
        scene, started_at = free.get(), time.perf_counter()
        try:
            lost = row.lost(scene, row.tries)
        except Exception as error:  # a command that was to end well did not, or not in time; the other rows go on
            lost = [f"{type(error).__name__}: {error}"]
        finally:
            free.put(scene)
        seconds = duration(time.perf_counter() - started_at)
        faults = "".join(f"\n    LOST: {fault}" for fault in lost if fault)
        print(f"{row.name}: {row.what}: {lost.count('')} of {len(lost)} survived, in {seconds}{faults}", flush=True)
        return lost

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for scene in pool.map(Scene, (scratch / str(number) for number in range(AT_A_TIME))):
            free.put(scene)
        return dict(zip(rows, pool.map(work, rows), strict=True))


def _show(results: dict[Row, list[str]], took: str) -> None:
    table = Table("fault", *(f"{name}" for name in ("tried", "survived", "lost")))
    for row, lost in results.items():
        table.add_row(row.what, str(len(lost)), str(lost.count("")), str(len(lost) - lost.count("")))
    Console(highlight=False).print(table)
    print(took)


def _markdown(results: dict[Row, list[str]]) -> str:
    head = "| fault | how | tried | survived | lost |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {row.what} | {row.how} | {len(lost)} | {lost.count('')} | {len(lost) - lost.count('')} |\n"
        for row, lost in results.items()
    )


if __name__ == "__main__":
    cli.call(app)
