"""Commands that bring results to MLflow and to other people."""

from typing import Annotated

import typer

from bukva.core.machine import limit_spinning


def ui(port: Annotated[int, typer.Option(help="The port, or the first that is tried.")] = 8050) -> None:
    """Serve all experiments, reports, the playground and MLflow. Prints their one address; Ctrl-C ends it."""
    limit_spinning()
    from bukva.cli.publish import complete
    from bukva.serving.server import serve

    complete()
    serve(port=port)


def sync() -> None:
    """Complete MLflow with what has run here. Safe to repeat."""
    from bukva.cli.publish import complete
    from bukva.tracking.sync import sync as fill

    complete()
    print(fill())


def push() -> None:
    """Send all results to DVC's remote. Another clone then restores them instead of running the stages."""
    from bukva.compare.remote import is_uncommitted
    from bukva.compare.remote import push as send

    entries, objects = send()
    print(f"push: the remote has the results of {entries} stage executions; {objects} objects were new to it.")
    print("push: experiments are sent by name: dvc exp push origin NAME")
    if is_uncommitted():
        print("push: `dvc exp apply` removes a remote from .dvc/config; use dvc remote add --local -d NAME ADDRESS.")
