"""Fill and show MLflow: python -m bukva.tracking COMMAND."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from bukva.base.errors import BukvaError
from bukva.base.redact import redact_url
from bukva.tracking import ui
from bukva.tracking.address import explain, tracking_uri
from bukva.tracking.follow import follow
from bukva.tracking.losing import end_runs, take_over
from bukva.tracking.reading import read_journals
from bukva.tracking.server import serve_team
from bukva.tracking.sync import View, open_store

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("sync")
def sync_command(experiment: Annotated[list[str] | None, typer.Option(help="only these")] = None) -> None:
    """Bring MLflow up to date with all journals and notes."""
    journals = [journal for name in experiment or ["*"] for journal in read_journals(name)]
    with _errors_in_one_line():
        troubles = View(open_store()).update(journals)
    for sentence in troubles:
        print(sentence)
    if troubles:
        raise typer.Exit(1)
    print(f"{redact_url(tracking_uri())} has all {len(journals)} stage executions.")


@app.command("follow")
def follow_command(folder: Path) -> None:
    """Fill MLflow from one journal while its stage runs."""
    with _errors_in_one_line():
        complete = follow(folder)
    if not complete:
        raise typer.Exit(1)


@app.command("take-over")
def take_over_command(folder: Path, attempt: int) -> None:
    """Let a journal that came from a lost machine continue its run."""
    with _errors_in_one_line():
        take_over(folder, attempt)


@app.command("end")
def end_command(experiment: str, commit: str) -> None:
    """End the runs of an experiment whose machine was lost."""
    with _errors_in_one_line():
        end_runs(experiment, commit)


@app.command("address")
def address_command(port: int = ui.PORT) -> None:
    """Print the address of the page that compares the trainings."""
    with _errors_in_one_line():
        print(ui.address(port))


@app.command("serve")
def serve_command(port: int = ui.PORT) -> None:
    """Print that address and serve it, from this port or the next free one."""
    with _errors_in_one_line():
        ui.serve(port)


@app.command("server")
def server_command(port: int = ui.PORT) -> None:
    """Run MLflow on PostgreSQL on this machine, as a team runs it elsewhere."""
    try:
        serve_team(port)
    except BukvaError as error:
        print(f"make server: {error}")
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Print an error in one line; a traceback shows addresses with their passwords."""
    try:
        yield
    except Exception as error:
        print(f"{redact_url(tracking_uri())}: {explain(error)}")
        raise typer.Exit(1) from None


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of other packages; they are not for users
    app()
