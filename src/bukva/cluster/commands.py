"""Commands of `bukva sweep`: many experiments at once, on this machine or on several."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bukva.cluster.board import Board, has_driver, log_of, request_stop, sweeps
from bukva.cluster.driver import Driver, Place
from bukva.cluster.fresh import print_verdict, rivals
from bukva.cluster.machines import head, join
from bukva.cluster.origin import run_git
from bukva.cluster.processes import Processes
from bukva.cluster.pull import origin_of, pull_results
from bukva.cluster.ray_engine import RayEngine
from bukva.cluster.search import Search
from bukva.cluster.slurm import write_array
from bukva.cluster.space import extremes, read_space
from bukva.cluster.table import live, summary, table
from bukva.cluster.trials import Sweep, check, checked_name, digest, grid
from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import has_remote

SWEEP = typer.Argument(help="name of a sweep; the last one if there is none", show_default=False)
Setting = Annotated[
    list[str] | None, typer.Option("-S", help="as of dvc exp run: SECTION.KEY=VALUE, or several values with commas")
]
Name = Annotated[str, typer.Option(help="of the sweep; made of commit and settings without it")]
Slots = Annotated[int, typer.Option(help="experiments at the same time, on this machine; 0: one for each GPU, or core")]
Address = Annotated[str, typer.Option(help="HOST:PORT of a Ray cluster; this machine without it")]
Cores = Annotated[int, typer.Option(help="cores of each experiment in a cluster, on each machine", min=1)]
Gpus = Annotated[float, typer.Option(help="GPUs of each experiment in a cluster, on each machine", min=0)]
Nodes = Annotated[int, typer.Option(help="machines of each experiment, which train one model in a cluster", min=1)]

app = typer.Typer(no_args_is_help=True, help="Run many experiments at once. On this machine or on several.")
app.command()(head)
app.command()(join)

FOLLOW_SECONDS = 0.5
PASSED = ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "BUKVA_CHECKPOINT_SECONDS")
WIDTH = 200  # of a table in a file


@app.command()
def run(
    setting: Setting = None,
    name: Name = "",
    slots: Slots = 0,
    address: Address = "",
    cores: Cores = 1,
    gpus: Gpus = 0,
    nodes: Nodes = 1,
) -> None:
    """Run an experiment for each combination of settings, on this machine or in a Ray cluster.

    Given again, it runs what has no result yet; interrupted trainings continue.
    """
    sweep = grid(_clean_head(), setting or [], name, nodes)
    place, console = _place(address), _console()
    engine = _engine(slots, address, cores, gpus, nodes)
    what = f"{_count(sweep, 'experiment')} from commit {sweep.commit[:7]}, {engine.slots} at the same time"
    console.print(f"{sweep.name}: {what}")
    _advise(engine, console)
    with live(console) as look:
        board = Driver(sweep, place, engine, look).run()
    console.print(summary(board))
    _check_all_finished(board)
    fetch = "bukva sweep pull && " if address else ""
    console.print(f"Compare them: {fetch}bukva experiments")


@app.command("search")
def search_command(
    space: Annotated[Path, typer.Argument(help="YAML file of what may be chosen (docs/sweep.md)")],
    trials: Annotated[int, typer.Option(help="how many settings to try", min=1)] = 20,
    seeds: Annotated[int, typer.Option(help="fresh seeds for the winner and for params.yaml; 0: none", min=0)] = 3,
    prune: Annotated[bool, typer.Option(help="stop trials that fall behind")] = True,
    name: Name = "",
    slots: Slots = 0,
    address: Address = "",
    cores: Cores = 1,
    gpus: Gpus = 0,
    nodes: Nodes = 1,
) -> None:
    """Search for settings with a lower val, then train the winner on fresh seeds and compare it with params.yaml.

    Given again, it goes on; interrupted trainings continue.
    """
    commit, chosen, params = _clean_head(), read_space(space), read_params()
    check(list(extremes(chosen)), nodes)
    name = checked_name(name) or f"search-{digest(commit, space.read_text(encoding='utf-8'))}"
    place, console = _place(address), _console()
    guide = Search(name, commit, chosen, trials, params.train_gpt, prune, place)
    engine = _engine(slots, address, cores, gpus, nodes)
    console.print(f"{name}: {trials} trials from commit {commit[:7]}, {engine.slots} at the same time")
    with live(console) as look:
        Driver(Sweep(name, commit, guide.known()), place, engine, look, guide).run()
    winner = guide.best()
    if winner is None:
        raise BukvaError(f"{name}: no trial has finished; look at: bukva sweep status {name}.")
    console.print(f"Best of {trials}: {winner.name}, val {guide.score(winner.name):.3f}: {' '.join(winner.settings)}")
    if seeds:
        fresh = [params.train_gpt.seed + number for number in range(1, seeds + 1)]
        last = rivals(name, commit, winner, fresh)
        console.print(f"{last.name}: the winner and params.yaml on {seeds} fresh seeds each")
        engine = _engine(slots, address, cores, gpus, nodes)
        with live(console) as look:
            board = Driver(last, place, engine, look).run()
        _check_all_finished(board)
        if address:
            pull(last.name)
        raise typer.Exit(print_verdict(last, fresh))


@app.command()
def slurm(
    setting: Setting = None,
    name: Name = "",
    cores: Cores = 1,
    nodes: Nodes = 1,
) -> None:
    """Write a script that runs the same experiments as an array of jobs of Slurm."""
    sweep = grid(_clean_head(), setting or [], name, nodes)
    script = write_array(sweep, _place("slurm"), cores, nodes)
    print(f"{sweep.name}: {_count(sweep, 'job')}; submit with: sbatch {script}")
    print("When they have ended: bukva sweep pull")


@app.command()
def status(sweep: Annotated[str | None, SWEEP] = None) -> None:
    """Show the trials of a sweep."""
    name, console = _sweep(sweep), _console()
    board = Board.read(name)
    console.print(table(board))
    if not has_driver(name) and board.count("finished") < len(board.trials):
        console.print("No driver runs this sweep; to continue it, give the same command again.")


@app.command()
def logs(
    trial: Annotated[str, typer.Argument(help="name of a trial")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="go on while it runs")] = False,
) -> None:
    """Print what the stages of a trial printed."""
    board = _board_of(trial)
    path = log_of(board.sweep, trial)
    if not path.exists():
        raise BukvaError(f"{trial}: has printed nothing yet.")
    with path.open(encoding="utf-8", errors="replace") as file:
        while True:
            running = Board.read(board.sweep).trials[trial].state == "running" and has_driver(board.sweep)
            print(file.read(), end="", flush=True)
            if not (follow and running):
                return
            time.sleep(FOLLOW_SECONDS)


@app.command()
def pull(sweep: Annotated[str | None, SWEEP] = None) -> None:
    """Get the results of a cluster: experiments, their files, and the journals that MLflow is filled from."""
    print(pull_results(Board.read(_sweep(sweep)), project_root()))


@app.command()
def cancel(trials: Annotated[list[str], typer.Argument(help="names of trials, or of sweeps")]) -> None:
    """Stop trials after their trainings have saved; the same `run` continues them."""
    for name in trials:
        board = Board.read(name) if name in sweeps() else _board_of(name)
        if not has_driver(board.sweep):
            raise BukvaError(f"{board.sweep}: no driver runs it, so nothing of it is running.")
        chosen = [each for each, entry in board.trials.items() if entry.state in ("running", "waiting")]
        chosen = chosen if name == board.sweep else [name]
        for each in chosen:
            request_stop(board.sweep, each)
        print(f"{name}: {len(chosen)} {'trial is' if len(chosen) == 1 else 'trials are'} asked to save and stop")


def _engine(slots: int, address: str, cores: int, gpus: float, nodes: int) -> Processes | RayEngine:
    if nodes > 1 and not address:
        raise BukvaError(f"--nodes {nodes}: this is one machine; name a cluster with --address HOST:PORT.")
    return RayEngine(address, cores, gpus, nodes) if address else Processes(slots)


def _advise(engine: Processes | RayEngine, console: Console) -> None:
    """Say how experiments share the cores, if each would take all."""
    if isinstance(engine, Processes) and not engine.has_gpus and engine.slots > 1 and not read_params().compute.threads:
        console.print(
            f"compute.threads is 0, so each experiment uses all {engine.cores} cores, as in DVC's queue. "
            f"{max(1, engine.cores // engine.slots)} would be faster for {engine.slots} at the same time; it trains "
            "other weights, because threads add in another order."
        )


def _place(elsewhere: str) -> Place:
    """Workers on this machine share the project; those elsewhere have the origin and the DVC remote in common.

    Raises:
        BukvaError: the project has no origin, or no remote.
    """
    root = project_root()
    if not elsewhere:
        return Place(str(root), root, shared=True, environment={})
    if not has_remote():
        raise BukvaError("The machines of a cluster need a DVC remote: dvc remote add -d NAME ADDRESS, and commit it.")
    passed = {name: value for name in PASSED if (value := os.environ.get(name))}
    return Place(origin_of(root), root, shared=False, environment=passed)


def _check_all_finished(board: Board) -> None:
    """Exit with status 1 if a trial has no result."""
    if left := len(board.trials) - board.count("finished"):
        print(f"{left} of {len(board.trials)} trials have no result; look at: bukva sweep status")
        raise typer.Exit(1)


def _count(sweep: Sweep, what: str) -> str:
    return f"{len(sweep.trials)} {what}{'' if len(sweep.trials) == 1 else 's'}"


def _console() -> Console:
    """A terminal, or a file whose lines may be long."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def _sweep(name: str | None) -> str:
    known = sweeps()
    if not known:
        raise BukvaError("There is no sweep yet; start one: bukva sweep run -S SECTION.KEY=VALUE,VALUE.")
    return name or known[0]


def _board_of(trial: str) -> Board:
    """The board that has this trial.

    Raises:
        BukvaError: none has.
    """
    boards = [Board.read(sweep) for sweep in sweeps()]
    found = next((board for board in boards if trial in board.trials), None)
    if found is None:
        raise BukvaError(f"{trial}: no sweep has a trial of this name; see: bukva sweep status.")
    return found


def _clean_head() -> str:
    """The commit that is checked out; experiments start from it, so nothing may be changed since.

    Raises:
        BukvaError: files are changed, or there is no commit.
    """
    root: Path = project_root()
    changed = run_git(root, "status", "--porcelain", "--untracked-files=no").splitlines()
    if changed:
        raise BukvaError(
            f"{changed[0][3:]}: is changed since the last commit, and experiments start from a commit; "
            "commit it, or undo the change."
        )
    return run_git(root, "rev-parse", "HEAD").strip()
