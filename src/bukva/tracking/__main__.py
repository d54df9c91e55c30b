"""Processes that fill MLflow for a stage or a command (background.py): python -m bukva.tracking COMMAND."""

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from bukva.core.errors import BukvaError
from bukva.tracking.address import errors_in_one_line
from bukva.tracking.follow import follow
from bukva.tracking.losing import end_runs, take_over
from bukva.tracking.sync import sync_with_journals

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("sync")
def sync_command(experiment: Annotated[list[str] | None, typer.Option(help="only these")] = None) -> None:
    """Bring MLflow up to date with all journals and notes."""
    print(sync_with_journals(experiment or ["*"]))


@app.command("follow")
def follow_command(folder: Path) -> None:
    """Fill MLflow from one journal while its stage runs."""
    with errors_in_one_line():
        complete = follow(folder)
    if not complete:
        raise typer.Exit(1)


@app.command("take-over")
def take_over_command(folder: Path, attempt: int) -> None:
    """Let a journal that came from a lost machine continue its run."""
    with errors_in_one_line():
        take_over(folder, attempt)


@app.command("end")
def end_command(experiment: str, commit: str) -> None:
    """End the runs of an experiment whose machine was lost."""
    with errors_in_one_line():
        end_runs(experiment, commit)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of other packages; they are not for users
    try:
        app()
    except BukvaError as error:
        sys.exit(str(error))
