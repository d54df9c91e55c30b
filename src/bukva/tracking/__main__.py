"""Fill and show MLflow: python -m bukva.tracking COMMAND."""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from bukva.base.redact import redact_url
from bukva.tracking import ui
from bukva.tracking.follow import follow
from bukva.tracking.records import read_journals
from bukva.tracking.store import connect, explain, tracking_uri
from bukva.tracking.sync import View

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("sync")
def sync_command(experiment: Annotated[str, typer.Option(help="only this one")] = "*") -> None:
    """Bring MLflow up to date with all journals."""
    journals = read_journals(experiment)
    with _one_line_on_trouble():
        refused = View(connect()).update(journals)
    for sentence in refused:
        print(sentence)
    if refused:
        raise typer.Exit(1)
    print(f"{redact_url(tracking_uri())} has all {len(journals)} stage executions.")


@app.command("follow")
def follow_command(folder: Path) -> None:
    """Fill MLflow from one journal while its stage runs."""
    with _one_line_on_trouble():
        complete = follow(folder)
    if not complete:
        raise typer.Exit(1)


@app.command("address")
def address_command(port: int = ui.PORT) -> None:
    """Print where the trainings are compared."""
    with _one_line_on_trouble():
        print(ui.address(port))


@app.command("serve")
def serve_command(port: int = ui.PORT) -> None:
    """Print that address and serve it, from this port or the next free one."""
    with _one_line_on_trouble():
        ui.serve(port)


@contextlib.contextmanager
def _one_line_on_trouble() -> Iterator[None]:
    """A traceback would show addresses with their passwords."""
    try:
        yield
    except Exception as error:
        print(f"{redact_url(tracking_uri())}: {explain(error)}")
        raise typer.Exit(1) from None


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # other people's, and there is nobody to read them
    app()
