"""Define the commands of `bukva sweep`, which run many experiments in parallel on one machine or on a cluster."""

from collections.abc import Sequence
from typing import Annotated

import typer

from bukva.config.load import read_params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.words import count
from bukva.project.baseline import RESULTS
from bukva.project.cache import fetch, has_remote
from bukva.project.lock import LOCK, outputs, parse_lock
from bukva.project.revisions import experiment_ref, file_at
from bukva.project.stages import paths, trained_models
from bukva.sweep.origin import base_ref, finished, run_git
from bukva.sweep.slot import TrialLocation
from bukva.sweep.trials import Sweep, Trial, checked_name, grid, read_sweep, sweeps_root

SEED = "train_gpt.seed"
# git arguments that list edited files, except for results, because trials do not start from results
EDITED = ("status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in RESULTS))
SWEEP = typer.Argument(help="Name of a sweep; by default the newest sweep.", show_default=False)
Setting = Annotated[
    list[str] | None,
    typer.Option("-S", help="Setting as in dvc exp run: SECTION.KEY=VALUE, or several values separated by commas."),
]
Choice = Annotated[
    list[str] | None,
    typer.Option(
        "-S",
        help="Setting and its possible values: KEY=VALUE,VALUE, KEY=range(LOW,HIGH,STEP) or KEY=interval(LOW,HIGH).",
    ),
]
Name = Annotated[str, typer.Option(help="Name of the sweep; a digest of the commit and the settings is appended.")]
Address = Annotated[
    str, typer.Option(help="HOST:PORT of a Ray cluster. By default, the experiments run on this machine.")
]
Storage = Annotated[
    str, typer.Option(help="Storage of a cluster: a folder that all its machines mount, or s3://BUCKET/PATH.")
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
    setting: Setting = None,
    name: Name = "sweep",
    address: Address = "",
    storage: Storage = "",
    cores: Cores = 1,
    gpus: Gpus = None,
) -> None:
    """Run an experiment for each combination of settings, on this machine or on a Ray cluster.

    Repeat the command to run the experiments that have no result yet. Interrupted trainings are resumed.
    """
    from bukva.sweep.engine import ray_for

    sweep = _sweep(name, setting or [], address, storage)
    trials, location = grid(sweep.name, setting or []), _location(sweep)
    with ray_for(address, cores, gpus) as resources:
        _run_all(sweep, location, resources, trials)
    print(f"To compare the experiments, run `{'bukva sweep pull && ' if address else ''}bukva experiments`.")


@app.command()
def search(
    setting: Choice = None,
    trials: Annotated[int, typer.Option(help="Number of trials.", min=1)] = 20,
    seeds: Annotated[
        int,
        typer.Option(help="Number of new seeds to compare the best settings with params.yaml; 0 skips this.", min=0),
    ] = 3,
    prune: Annotated[bool, typer.Option(help="Stop trials that fall behind.")] = True,
    name: Name = "search",
    address: Address = "",
    storage: Storage = "",
    cores: Cores = 1,
    gpus: Gpus = None,
) -> None:
    """Search for settings with a lower score on val. Then compare the best settings with params.yaml, using new seeds.

    A setting with a single value applies to all trials, and in the comparison also to params.yaml. Repeat the command
    to continue an interrupted search. Interrupted trainings are resumed.
    """
    from bukva.compare.comparison import compare
    from bukva.report.comparison import show_and_save
    from bukva.sweep import engine
    from bukva.sweep.search import pruning_rule, read_space, searcher

    read_params()  # report a mistake in params.yaml before the options are checked
    space, fixed, training = read_space(setting or [], prune)
    sweep = _sweep(name, [*(setting or []), str(trials), str(prune)], address, storage)
    location = _location(sweep)
    print(f"{sweep.name}: {count(trials, 'trial')} from commit {sweep.commit[:7]}")
    with engine.ray_for(address, cores, gpus) as resources:
        search_alg, scheduler = searcher(sweep.name, space, trials), pruning_rule(training) if prune else None
        reports = engine.run(
            sweep, location, resources, {}, search_alg=search_alg, num_samples=trials, scheduler=scheduler
        )
        done = [each for each in reports if each.get("finished")]
        if not done:
            raise BukvaError(f"{sweep.name}: no trial has finished. To see why, run `bukva sweep status {sweep.name}`.")
        best = min(done, key=lambda each: float(each["val"]))
        settings = " ".join(best["settings"])
        print(f"Best of {count(len(reports), 'trial')}: {best['name']}, val {best['val']:.3f}: {settings}")
        final = Sweep(f"{sweep.name}-seeds", sweep.commit, sweep.address, sweep.storage)
        fresh = [training.seed + number for number in range(1, seeds + 1)]
        compared = {"params": fixed, "winner": best["settings"]}
        finals = [
            Trial(f"{final.name}-{name}-{seed}", (*settings, f"{SEED}={seed}"))
            for name, settings in compared.items()
            for seed in fresh
        ]
        if finals:
            _run_all(final, location, resources, finals)
    if finals:
        if address:
            pull(final.name)
        # both trials have the same seed, so their results are identical if the winner has the settings of params.yaml
        a, b = finals[0].name, finals[len(fresh)].name
        show_and_save(compare([a, b], "gpt", "val", fresh))


@app.command()
def status(sweep: Annotated[str | None, SWEEP] = None) -> None:
    """Show the trials of a sweep, as last saved by the process that runs the sweep."""
    from bukva.sweep.table import format_rows

    print(format_rows(read_sweep(sweep).name))


@app.command()
def pull(sweep: Annotated[str | None, SWEEP] = None) -> None:
    """Download the experiments of a sweep that ran on a cluster, with their scores and models.

    The journals, files with results for MLflow, are also downloaded, and then sent to MLflow.
    """
    from bukva.sweep.transfer import unpack_all
    from bukva.tracking.journal import start_sync

    chosen, root = read_sweep(sweep), project_root()
    origin = _location(chosen).origin
    names = sorted(name for name in finished(root, origin, chosen.commit) if name.startswith(f"{chosen.name}-"))
    if not names:
        raise BukvaError(f"{chosen.name}: no trial has finished yet.")
    refs = [experiment_ref(chosen.commit, name) for name in names]
    run_git(root, "fetch", "--quiet", origin, *(f"{ref}:{ref}" for ref in refs))
    commits = run_git(root, "rev-parse", *refs).split()
    wanted = [paths()["scores"], *(str(model.folder) for model in trained_models().values())]
    records = [outputs(parse_lock(file_at(commit, LOCK).decode())) for commit in commits]
    if why := fetch(made[path] for made in records for path in wanted if path in made):
        raise BukvaError(f"{chosen.name}: an output of its trials {why}.")
    unpack_all(chosen, names)
    start_sync()
    print(f"{chosen.name}: downloaded {count(len(names), 'experiment')}. Their journals are being sent to MLflow.")


def _sweep(name: str, plan: Sequence[str], address: str, storage: str) -> Sweep:
    """Return a sweep that starts from the checked-out commit.

    name: name that the user chose. A digest is appended to this name.
    plan: settings and options of the command. The digest is computed from the commit and from these texts.

    Raises:
        BukvaError: tracked files differ from the last commit, or only one of `address` and `storage` is given.
    """
    if changed := run_git(project_root(), *EDITED).splitlines():
        raise BukvaError(
            f"{changed[0][3:]} differs from the last commit, but experiments start from a commit. Commit the file, or "
            "undo the change."
        )
    if bool(address) != bool(storage):
        raise BukvaError(
            "`--address` and `--storage` must be used together, because the machines of a cluster exchange checkpoints "
            "through the storage. The storage is a folder that all machines mount, or s3://BUCKET/PATH."
        )
    commit = run_git(project_root(), "rev-parse", "HEAD").strip()
    return Sweep(checked_name(name, commit, *plan), commit, address, storage or str(sweeps_root()))


def _location(sweep: Sweep) -> TrialLocation:
    """Push the commit of a sweep to the origin, the git repository that trials clone. Return where the trials run.

    On a cluster, the origin is the git remote named `origin`. Otherwise, the origin is the repository on this machine.

    Raises:
        BukvaError: the sweep runs on a cluster but the project has no DVC remote, or the origin does not answer.
    """
    root = project_root()
    if sweep.address and not has_remote():
        raise BukvaError(
            "The machines of a cluster need a DVC remote. Run `dvc remote add -d NAME URL`, then commit the change."
        )
    top, prefix = (run_git(root, "rev-parse", option).strip() for option in ("--show-toplevel", "--show-prefix"))
    origin = run_git(root, "remote", "get-url", "origin").strip() if sweep.address else top
    run_git(root, "push", "--quiet", origin, f"{sweep.commit}:{base_ref(sweep.commit)}")
    return TrialLocation(origin, sweep.commit, prefix, None if sweep.address else root)


def _run_all(sweep: Sweep, location: TrialLocation, resources: dict[str, float], trials: Sequence[Trial]) -> None:
    """Run the trials. If a trial has no result afterwards, exit the process with status 1."""
    from ray import tune

    from bukva.sweep.engine import run as run_on

    print(f"{sweep.name}: {count(len(trials), 'experiment')} from commit {sweep.commit[:7]}")
    configs = [{"name": trial.name, "settings": list(trial.settings)} for trial in trials]
    run_on(sweep, location, resources, {"trial": tune.grid_search(configs)})
    if left := {trial.name for trial in trials} - finished(project_root(), location.origin, sweep.commit):
        n_trials = count(len(trials), "trial")
        print(f"No result for {len(left)} of {n_trials}. To see why, run `bukva sweep status {sweep.name}`.")
        raise typer.Exit(1)
