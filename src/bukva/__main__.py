"""What the Makefile asks for beside the pipeline: python -m bukva COMMAND."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bukva.base.files import read_json
from bukva.config.load import read_params, read_yaml
from bukva.stage import cli

app = typer.Typer(no_args_is_help=True, **cli.STYLE)


@app.command()
def check() -> None:
    """Validate params.yaml, as every stage does before its work."""
    read_params()


@app.command()
def scores(metrics: Annotated[Path, typer.Argument(help="metrics.json of stage evaluate.")]) -> None:
    """Print the scores as a table, and the one next command."""
    from rich.console import Console

    from bukva.report.terminal import table, verdict

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


@app.command()
def plan(
    budget: Annotated[str, typer.Argument(help="How long stage train-gpt may take: 90s, 10min, 1h30min.")],
    write: Annotated[bool, typer.Option("--write", help="Put the proposal into params.yaml.")] = False,
) -> None:
    """Measure a few updates of several sizes, and propose size, batch and steps for a time budget."""
    started_at = time.perf_counter()  # what planning imports belongs to the start-up of the stage, too
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # threads wait as in a stage (stages/__init__.py)
    from rich.console import Console

    from bukva import planning

    seconds = planning.budget_seconds(budget)
    bench = planning.Bench.of(read_yaml())
    limits = bench.budget(seconds, started_at)
    plans = []
    for measured in planning.climb(bench.speed, bench.params, limits):
        print(planning.told(measured), file=sys.stderr, flush=True)
        plans.append(measured)
    chosen = planning.propose(plans)
    changes = list(planning.differences(bench.raw, chosen.values()))
    if write:
        planning.write(chosen.values())
    console = Console(highlight=False)
    console.print(planning.table(plans, chosen))
    for line in (*planning.changes_told(changes), *planning.warnings(chosen)):
        console.print(line, soft_wrap=True)
    if write:
        console.print("\nparams.yaml has these numbers now; train with them: make repro", soft_wrap=True)
    elif changes:
        console.print(f"\nTry them: {planning.experiment(changes)}", soft_wrap=True)
        console.print(f"Write them to params.yaml: make plan BUDGET={budget} WRITE=1", soft_wrap=True)


def _lock_is_new() -> bool:
    """Whether dvc.lock differs from that of the last commit, or is in none."""
    status = subprocess.run(["git", "status", "--porcelain", "--", "dvc.lock"], capture_output=True)
    return bool(status.stdout)


if __name__ == "__main__":
    cli.call(app)
