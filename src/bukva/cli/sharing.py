"""Commands that bring results to MLflow and to other people."""

from typing import Annotated

import typer


def ui(port: Annotated[int, typer.Option(help="The port, or the first that is tried; 0: MLflow's own.")] = 0) -> None:
    """Start MLflow where losses are compared. Prints the address; Ctrl-C ends it."""
    from bukva.stage.completion import complete_ended
    from bukva.tracking.address import errors_in_one_line
    from bukva.tracking.ui import PORT, serve

    complete_ended()
    with errors_in_one_line():
        serve(port or PORT)


def sync() -> None:
    """Complete MLflow with what has run here. Safe to repeat."""
    from bukva.stage.completion import complete_ended
    from bukva.tracking.sync import sync_with_journals

    complete_ended()
    print(sync_with_journals())


def push() -> None:
    """Send all results to DVC's remote. Another clone then restores them instead of running the stages."""
    from bukva.experiments.remote import is_uncommitted
    from bukva.experiments.remote import push as send

    entries, objects = send()
    print(f"push: the remote has the results of {entries} stage executions; {objects} objects were new to it.")
    print("push: experiments are sent by name: dvc exp push origin NAME")
    if is_uncommitted():
        print("push: `dvc exp apply` removes a remote from .dvc/config; use dvc remote add --local -d NAME ADDRESS.")
