"""The command that converts a time budget into training steps."""

import sys
import time
from typing import Annotated

import typer

from bukva.config.load import read_yaml
from bukva.core.machine import limit_spinning, use_large_pages


def plan(
    budget: Annotated[str, typer.Argument(help="How long stage train-gpt may take: 90s, 10min, 1h30min.")],
    write: Annotated[bool, typer.Option("--write", help="Put the proposal into params.yaml.")] = False,
) -> None:
    """Propose size and steps for a time budget. Measures a few updates of several sizes here."""
    started_at = time.perf_counter()  # the imports below are part of the start-up of the stage, too
    limit_spinning()  # as in a stage
    use_large_pages()
    from rich.console import Console

    from bukva.planning import params, show
    from bukva.planning.budget import parse_budget
    from bukva.planning.ladder import climb, propose
    from bukva.planning.measure import Measuring

    seconds = parse_budget(budget)
    measuring = Measuring.of(read_yaml())
    limits = measuring.budget(seconds, started_at)
    plans = []
    for measured in climb(measuring.speed, measuring.params, limits):
        print(show.progress_line(measured), file=sys.stderr, flush=True)
        plans.append(measured)
    chosen = propose(plans)
    changes = list(params.differences(measuring.raw, chosen.values()))
    if write:
        params.write(chosen.values())
    console = Console(highlight=False)
    console.print(show.table(plans, chosen))
    for line in (*show.list_changes(changes), *show.warnings(chosen)):
        console.print(line, soft_wrap=True)
    if write:
        console.print("\nparams.yaml now has these values; train with them: make repro", soft_wrap=True)
    elif changes:
        console.print(f"\nTry them: {show.experiment(changes)}", soft_wrap=True)
        console.print(f"Write them to params.yaml: bukva plan {budget} --write", soft_wrap=True)
