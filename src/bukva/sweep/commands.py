"""Commands of `bukva sweep`: many experiments at once, on this machine or on several."""

from collections.abc import Sequence
from typing import Annotated

import typer

from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.baseline import RESULTS
from bukva.project.cache import has_remote
from bukva.project.revisions import Revision, experiment_ref, fetch
from bukva.project.stages import paths, trained_models
from bukva.sweep.origin import base_ref, finished, run_git
from bukva.sweep.slot import TrialLocation
from bukva.sweep.trials import Sweep, Trial, checked_name, grid, read_sweep, sweeps_root

SEED = "train_gpt.seed"
# of git: tracked files with changes; the results of a run are none of what a trial starts from
EDITED = ("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in RESULTS))
SWEEP = typer.Argument(help="name of a sweep; the last one if there is none", show_default=False)
Setting = Annotated[
    list[str] | None, typer.Option("-S", help="as of dvc exp run: SECTION.KEY=VALUE, or several values with commas")
]
Choice = Annotated[
    list[str] | None,
    typer.Option("-S", help="what may be chosen: several values, range(LOW,HIGH,STEP) or interval(LOW,HIGH)"),
]
Name = Annotated[str, typer.Option(help="of the sweep; a digest of commit and settings follows")]
Address = Annotated[str, typer.Option(help="HOST:PORT of a Ray cluster; this machine without it")]
Storage = Annotated[str, typer.Option(help="of a cluster: a folder that all its machines mount, or s3://BUCKET/PATH")]
Cores = Annotated[int, typer.Option(help="cores of each experiment, by which so many run at the same time", min=1)]
Gpus = Annotated[float | None, typer.Option(help="GPUs of each experiment; without it one, if there are any", min=0)]

app = typer.Typer(no_args_is_help=True, help="Run many experiments at once. On this machine or on several.")


@app.command()
def run(
    setting: Setting = None,
    name: Name = "sweep",
    address: Address = "",
    storage: Storage = "",
    cores: Cores = 1,
    gpus: Gpus = None,
) -> None:
    """Run an experiment for each combination of settings, on this machine or in a Ray cluster.

    Given again, it runs what has no result yet; interrupted trainings continue.
    """
    from bukva.sweep.engine import ray_for

    sweep = _sweep(name, setting or [], address, storage)
    trials, location = grid(sweep.name, setting or []), _location(sweep)
    with ray_for(address, cores, gpus) as resources:
        _run_all(sweep, location, resources, trials)
    print(f"Compare them: {'bukva sweep pull && ' if address else ''}bukva experiments")


@app.command()
def search(
    setting: Choice = None,
    trials: Annotated[int, typer.Option(help="how many settings to try", min=1)] = 20,
    seeds: Annotated[int, typer.Option(help="fresh seeds for the winner and for params.yaml; 0: none", min=0)] = 3,
    prune: Annotated[bool, typer.Option(help="stop trials that fall behind")] = True,
    name: Name = "search",
    address: Address = "",
    storage: Storage = "",
    cores: Cores = 1,
    gpus: Gpus = None,
) -> None:
    """Search for settings with a lower val, then train the winner on fresh seeds and compare it with params.yaml.

    Options with one value hold for all trials, and for params.yaml in the comparison. Given again, it goes on;
    interrupted trainings continue.
    """
    from bukva.compare.comparison import compare
    from bukva.report.comparison import show_and_keep
    from bukva.sweep import engine
    from bukva.sweep.search import read_space, rule, searcher

    read_params()  # a mistake there is none of the options
    space, fixed, training = read_space(setting or [], prune)
    sweep = _sweep(name, [*(setting or []), str(trials), str(prune)], address, storage)
    location = _location(sweep)
    print(f"{sweep.name}: {trials} trials from commit {sweep.commit[:7]}")
    with engine.ray_for(address, cores, gpus) as resources:
        guide, stops = searcher(sweep.name, space, trials), rule(training) if prune else None
        last = engine.run(sweep, location, resources, {}, search_alg=guide, num_samples=trials, scheduler=stops)
        done = [each for each in last if each.get("finished")]
        if not done:
            raise BukvaError(f"{sweep.name}: no trial has finished; look at: bukva sweep status {sweep.name}.")
        best = min(done, key=lambda each: float(each["val"]))
        print(f"Best of {len(last)}: {best['name']}, val {best['val']:.3f}: {' '.join(best['settings'])}")
        final = Sweep(f"{sweep.name}-seeds", sweep.commit, sweep.address, sweep.storage)
        fresh = [training.seed + number for number in range(1, seeds + 1)]
        sides = {"params": fixed, "winner": best["settings"]}
        rivals = [
            Trial(f"{final.name}-{side}-{seed}", (*settings, f"{SEED}={seed}"))
            for side, settings in sides.items()
            for seed in fresh
        ]
        if rivals:
            _run_all(final, location, resources, rivals)
    if rivals:
        if address:
            pull(final.name)
        a, b = (
            rivals[0].name,
            rivals[len(fresh)].name,
        )  # of one seed: a winner with the settings of params.yaml is identical
        show_and_keep(compare([a, b], "gpt", "val", fresh))


@app.command()
def status(sweep: Annotated[str | None, SWEEP] = None) -> None:
    """Show the trials of a sweep, as its driver saw them last."""
    from bukva.sweep.table import shown_rows

    print(shown_rows(read_sweep(sweep).name))


@app.command()
def pull(sweep: Annotated[str | None, SWEEP] = None) -> None:
    """Get the results of a cluster: experiments, their files, and the journals that MLflow is filled from."""
    from bukva.sweep.transfer import unpack_all
    from bukva.tracking.journal import start_sync

    found, root = read_sweep(sweep), project_root()
    origin = _location(found).origin
    names = sorted(name for name in finished(root, origin, found.commit) if name.startswith(f"{found.name}-"))
    if not names:
        raise BukvaError(f"{found.name}: no trial has finished yet.")
    refs = [experiment_ref(found.commit, name) for name in names]
    run_git(root, "fetch", "--quiet", origin, *(f"{ref}:{ref}" for ref in refs))
    commits = run_git(root, "rev-parse", *refs).split()
    revisions = [Revision(name, commit, found.commit) for name, commit in zip(names, commits, strict=True)]
    for path in (paths()["scores"], *(str(model.folder) for model in trained_models().values())):
        fetch(revisions, path)
    unpack_all(found, names)
    start_sync()
    print(f"{found.name}: {len(names)} experiments are here, and MLflow gets their journals")


def _sweep(name: str, plan: Sequence[str], address: str, storage: str) -> Sweep:
    """A sweep of the commit that is checked out.

    Raises:
        BukvaError: files are changed, or a cluster has no storage.
    """
    if changed := run_git(project_root(), *EDITED).splitlines():
        raise BukvaError(
            f"{changed[0][3:]}: is changed since the last commit, and experiments start from a commit; "
            "commit it, or undo the change."
        )
    if bool(address) != bool(storage):
        raise BukvaError(
            "--address and --storage: a cluster needs both, because its machines hand over checkpoints in the storage; "
            "use a folder that all of them mount, or s3://BUCKET/PATH."
        )
    commit = run_git(project_root(), "rev-parse", "HEAD").strip()
    return Sweep(checked_name(name, commit, *plan), commit, address, storage or str(sweeps_root()))


def _location(sweep: Sweep) -> TrialLocation:
    """Where the trials of a sweep start, after its commit was sent there.

    Raises:
        BukvaError: the project of a cluster has no remote, or its origin cannot be reached.
    """
    root = project_root()
    if sweep.address and not has_remote():
        raise BukvaError("The machines of a cluster need a DVC remote: dvc remote add -d NAME ADDRESS, and commit it.")
    top, prefix = (run_git(root, "rev-parse", option).strip() for option in ("--show-toplevel", "--show-prefix"))
    origin = run_git(root, "remote", "get-url", "origin").strip() if sweep.address else top
    run_git(root, "push", "--quiet", origin, f"{sweep.commit}:{base_ref(sweep.commit)}")
    return TrialLocation(origin, sweep.commit, prefix, None if sweep.address else root)


def _run_all(sweep: Sweep, location: TrialLocation, resources: dict[str, float], trials: Sequence[Trial]) -> None:
    """Run these trials; exit with status 1 if one has no result."""
    from ray import tune

    from bukva.sweep.engine import run as run_on

    print(f"{sweep.name}: {len(trials)} experiment{'' if len(trials) == 1 else 's'} from commit {sweep.commit[:7]}")
    configs = [{"name": trial.name, "settings": list(trial.settings)} for trial in trials]
    run_on(sweep, location, resources, {"trial": tune.grid_search(configs)})
    if left := {trial.name for trial in trials} - finished(project_root(), location.origin, sweep.commit):
        print(f"{len(left)} of {len(trials)} trials have no result; look at: bukva sweep status {sweep.name}")
        raise typer.Exit(1)
