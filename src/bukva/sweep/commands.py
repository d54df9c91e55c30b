"""The commands of `bukva sweep`."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import typer

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.params import read_params
from bukva.core.words import count
from bukva.project.baseline import RESULTS, SPLIT
from bukva.project.lock import digest
from bukva.project.revisions import git, head
from bukva.sweep.trial import DIGITS, MODEL, Sweep, checked_name, grid, trial_of

WIDTH = 200  # characters per line of the table
# git arguments that list edited files, except for results, because trials do not start from results
EDITED = ("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in RESULTS))
Assignments = Annotated[
    list[str] | None,
    typer.Option("-S", help="Setting as in dvc exp run: SECTION.KEY=VALUE, or several values separated by commas."),
]
Choices = Annotated[
    list[str] | None,
    typer.Option(
        "-S",
        help="Setting and its possible values: KEY=VALUE,VALUE, KEY=range(LOW,HIGH,STEP) or KEY=interval(LOW,HIGH).",
    ),
]
Name = Annotated[str, typer.Option(help="Name of the sweep; a digest of the commit and the settings is appended.")]
Address = Annotated[
    str,
    typer.Option(
        help="HOST:PORT of a Ray cluster whose machines all mount this project's folder. By default, the experiments "
        "run on this machine."
    ),
]
Cores = Annotated[
    int, typer.Option(help="Cores per experiment. With fewer cores, more experiments run at the same time.", min=1)
]
Gpus = Annotated[
    float | None, typer.Option(help="GPUs per experiment; by default 1 if Ray finds a GPU, otherwise 0.", min=0)
]

app = typer.Typer(no_args_is_help=True, help="Run many experiments in parallel, on this machine or on a cluster.")


@app.command()
def run(
    assignments: Assignments = None,
    name: Name = "sweep",
    address: Address = "",
    cores: Cores = 1,
    gpus: Gpus = None,
) -> None:
    """Run an experiment for each combination of settings, on this machine or on a Ray cluster.

    Repeat the command to run the experiments that have no result yet. Interrupted trainings are resumed.
    """
    from bukva.sweep import engine

    sweep = _sweep(name, assignments or [], address)
    trials = grid(sweep.name, assignments or [])
    with engine.ray_for(address, cores, gpus) as resources:
        engine.run_all(sweep, resources, trials)
    print("To compare the experiments, run `bukva experiments`.")


@app.command()
def search(
    assignments: Choices = None,
    trials: Annotated[int, typer.Option(help="Number of trials.", min=1)] = 20,
    seeds: Annotated[
        int,
        typer.Option(help="Number of new seeds to compare the best settings with params.yaml; 0 skips this.", min=0),
    ] = 3,
    prune: Annotated[bool, typer.Option(help="Stop trials that fall behind.")] = True,
    name: Name = "search",
    address: Address = "",
    cores: Cores = 1,
    gpus: Gpus = None,
) -> None:
    """Search for settings with a lower score on val. Then compare the best settings with params.yaml, using new seeds.

    A setting with a single value applies to all trials, and in the comparison also to params.yaml. Repeat the command
    to continue an interrupted search. Interrupted trainings are resumed.
    """
    from bukva.compare.comparison import compare
    from bukva.compare.groups import seed_name
    from bukva.report.comparison import show_and_save
    from bukva.sweep import engine
    from bukva.sweep.search import pruning_rule, read_space, searcher

    read_params()  # report a mistake in params.yaml before the options are checked
    space, fixed, training = read_space(assignments or [], prune)
    sweep = _sweep(name, [*(assignments or []), str(trials), str(prune)], address)
    print(f"{sweep.name}: {count(trials, 'trial')} from commit {sweep.commit[:7]}")
    with engine.ray_for(address, cores, gpus) as resources:
        search_alg, scheduler = searcher(sweep.name, space, trials), pruning_rule(training) if prune else None
        reports = engine.run(sweep, resources, {}, search_alg=search_alg, num_samples=trials, scheduler=scheduler)
        done = [each for each in reports if each.get("finished")]
        if not done:
            raise BukvaError(f"{sweep.name}: no trial has finished. To see why, run `bukva sweep status {sweep.name}`.")
        best = min(done, key=lambda each: float(each["val"]))
        winner = " ".join(best["assignments"])
        print(f"Best of {count(len(reports), 'trial')}: {best['name']}, val {best['val']:.3f}: {winner}")
        fresh = [training.seed + number for number in range(1, seeds + 1)]
        finals = [
            trial_of(f"{sweep.name}-seeds", f"{side}-{seed}", [*chosen, f"{seed_name(MODEL)}={seed}"])
            for side, chosen in (("params", fixed), ("winner", best["assignments"]))
            for seed in fresh
        ]
        if finals:
            # a name of its own for each plan, because Tune continues a sweep of the same name with its old plan
            final = dataclasses.replace(sweep, name=f"{sweep.name}-seeds-{digest(finals)[:DIGITS]}")
            engine.run_all(final, resources, finals)
    if finals:
        # both trials have the same seed, so their results are identical if the winner has the settings of params.yaml
        show_and_save(compare([finals[0]["name"], finals[len(fresh)]["name"]], MODEL, SPLIT, fresh))


@app.command()
def status(
    sweep: Annotated[
        str | None, typer.Argument(help="Name of a sweep; by default the newest sweep.", show_default=False)
    ] = None,
) -> None:
    """Show the trials of a sweep, as last saved by the process that runs the sweep."""
    from rich.console import Console

    from bukva.sweep.engine import table_of

    Console(width=WIDTH, markup=False).print(table_of(sweep))


def _sweep(name: str, plan: Sequence[str], address: str) -> Sweep:
    if changed := git(*EDITED).decode().splitlines():
        raise BukvaError(
            f"{changed[0][3:]} differs from the last commit, but experiments start from a commit. Commit the file, or "
            "undo the change."
        )
    return Sweep(checked_name(name, head(), *plan), head(), project_root(), address)
