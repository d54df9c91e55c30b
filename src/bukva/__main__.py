"""What the Makefile asks for beside the pipeline: python -m bukva COMMAND."""

import subprocess
from pathlib import Path
from typing import Annotated

import typer

from bukva import cli
from bukva.files import read_json
from bukva.params import read_params

app = typer.Typer(no_args_is_help=True, **cli.STYLE)


@app.command()
def check() -> None:
    """Validate params.yaml, as every stage does before its work."""
    read_params()


@app.command()
def scores(metrics: Annotated[Path, typer.Argument(help="metrics.json of stage evaluate.")]) -> None:
    """Print the scores as a table, and the one next command."""
    from rich.console import Console

    from bukva.report.scores import table, verdict

    values = read_json(metrics)
    console = Console(highlight=False)
    console.print(table(values))
    console.print(verdict(values), soft_wrap=True)
    console.print("\nLook at both models' losses: make ui", soft_wrap=True)
    if _lock_is_new():
        console.print(
            "\ndvc.lock differs from the last commit, which experiments are compared with; next:", soft_wrap=True
        )
        console.print('git commit -am "Baseline on this machine"', soft_wrap=True)


def _lock_is_new() -> bool:
    """Whether dvc.lock differs from that of the last commit, or is in none."""
    status = subprocess.run(["git", "status", "--porcelain", "--", "dvc.lock"], capture_output=True)
    return bool(status.stdout)


if __name__ == "__main__":
    cli.call(app)
