"""The command `bukva`, which pyproject.toml installs."""

import sys
from pathlib import Path

import typer

from bukva.cli import comparing, pipeline, studies
from bukva.cli import stage as cli
from bukva.cluster import commands as sweep
from bukva.config.load import PARAMS
from bukva.core.errors import BukvaError

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
    arguments = sys.argv[1:]
    if arguments and "--help" not in arguments:
        check_folder(Path.cwd())
    app(prog_name="bukva")


def check_folder(folder: Path) -> None:
    """Commands work on the project in the current folder, as DVC's do on theirs.

    Raises:
        BukvaError: the folder has no project; names the project that it is a part of, if there is one.
    """
    if not _is_project(folder):
        project = next(filter(_is_project, folder.parents), None)
        remedy = f"go to its project: cd {project}" if project else "go to the folder of a clone of bukva."
        raise BukvaError(f"{folder}: no project of bukva is in this folder (no {PARAMS}); {remedy}")


def _is_project(folder: Path) -> bool:
    return any((folder / name).exists() for name in (PARAMS, "dvc.yaml"))
