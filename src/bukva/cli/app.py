"""The command `bukva`, which pyproject.toml installs."""

import sys
from pathlib import Path

import typer

from bukva.cli import comparing, pipeline, studies
from bukva.cli import stage as cli
from bukva.cluster import commands as sweep
from bukva.config.load import PARAMS
from bukva.core.errors import BukvaError
from bukva.core.machine import prepare_torch

app = typer.Typer(
    no_args_is_help=True,
    help="Experiments with small language models: compare them, look at them, run many of them.",
    epilog="Run the pipeline itself with DVC: dvc repro, dvc exp run -S model.n_head=8.",
    **cli.STYLE,
)
for command in (
    comparing.compare,
    comparing.experiments,
    comparing.seeds,
    comparing.verify,
    studies.ui,
    studies.report,
    studies.play,
    studies.attention,
    studies.counting,
    pipeline.recipe,
    pipeline.plan,
    pipeline.sync,
    pipeline.push,
    pipeline.check,
    pipeline.scores,
):
    app.command()(command)
app.add_typer(sweep.app, name="sweep")


def main() -> None:
    """Run the command line of this process."""
    cli.call(_run)


def _run() -> None:
    prepare_torch()
    if sys.argv[1:] and "--help" not in sys.argv and not PARAMS.exists():
        raise BukvaError(f"{Path.cwd()}: has no {PARAMS}; go to the folder of a clone of bukva.")
    app(prog_name="bukva")
