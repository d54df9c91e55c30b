"""Define the command `bukva`. Subcommands import slow packages themselves, so that `bukva --help` answers quickly."""

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bukva.cli import console
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json
from bukva.core.machine import prepare_torch
from bukva.core.params import PARAMS, read_params
from bukva.core.processes import MAX_PORT
from bukva.core.words import count
from bukva.project.lock import check_conflicts, read_lock
from bukva.project.stages import paths
from bukva.sweep import commands as sweep

if TYPE_CHECKING:
    from bukva.compare.judge import Try

NO_RECIPE = "--no-such-recipe"  # DVC rejects this option
PAGE = Path("reports/index.html")
Port = Annotated[
    int, typer.Option(help="Port of the server. If it is taken, the next free port is used.", min=0, max=MAX_PORT)
]
Model = Annotated[str, typer.Option(help="The model to compare: gpt or bigram.")]
PARALLEL = typer.Option(
    help="Number of seeds to train at the same time. Each training gets as many cores as compute.threads says, or an "
    "equal share of the cores.",
    min=1,
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
WithTest = Annotated[bool, typer.Option("--test", help="Show the scores on test as well. Each use is counted.")]

# exit statuses of compare --exit-code and of judge; 1 and 2 are used for errors
CANNOT_TELL = 4
COMPARED = {"better": 0, "probably better": 0, "worse": 3, "probably worse": 3}
JUDGED = {"keep": 0, "discard": 3, "cannot tell": CANNOT_TELL}
BASELINES = "HEAD", "baseline"  # `bukva judge NAME` begins a ledger if NAME is one of these

app = typer.Typer(
    no_args_is_help=True,
    help="Compare, inspect and run experiments with small language models.",
    epilog="To run the pipeline, use DVC: `dvc repro`, or `dvc exp run -S model.n_head=8`.",
    **console.STYLE,
)


def main() -> None:
    console.call(_run)


def _run() -> None:
    prepare_torch()
    os.chdir(project_root())  # the user may be in a folder below it
    if sys.argv[1:] and "--help" not in sys.argv:
        if not Path(PARAMS).exists():
            is_clone = Path("dvc.yaml").is_file()
            remedy = f"Run `git checkout HEAD {PARAMS}`." if is_clone else "Change to the folder of a clone of bukva."
            raise BukvaError(f"{Path.cwd()}: this folder has no {PARAMS}. {remedy}")
        check_conflicts()
    app(prog_name="bukva")


@app.command()
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Experiment A, then the experiments to compare with A. Each name is an experiment, a branch, a tag, a "
            "commit, or `workspace` (the current files). If there is only one name, A is the baseline."
        ),
    ],
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Compare on test instead of val. Each use is counted.")] = False,
    seed: Annotated[
        list[int] | None, typer.Option(help="Use only trainings with this seed. The option can be repeated.")
    ] = None,
    json: Json = False,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 0 if the second experiment is (probably) better than A, 3 if it is (probably) worse, 4 if "
            "neither, and 1 or 2 after errors.",
        ),
    ] = False,
) -> None:
    """Compare experiments with experiment A, which is the first name.

    Each verdict says whether an experiment is better than A, by how much, and how certain this is.
    """
    from bukva.compare import records
    from bukva.compare.comparison import compare as compared
    from bukva.compare.results import default_baseline
    from bukva.report.comparison import show_and_save
    from bukva.report.terminal import times_shown

    if len(names) == 1:
        names = [default_baseline(), *names]
    if exit_code and len(names) > 2:
        raise BukvaError(
            f"compare --exit-code: an exit status can report only one verdict. Give two names, not {len(names)}."
        )
    comparisons = compared(names, model, "test" if test else "val", seed or [])
    show_and_save(comparisons, as_json=json)
    if test:
        n = records.looks_at_test(comparisons[0].a.result.about["text"]["test"], more=1)
        print(times_shown(n), file=sys.stderr)
    if exit_code:
        raise typer.Exit(COMPARED.get(comparisons[0].verdict.verdict, CANNOT_TELL))


@app.command()
def experiments(
    baseline: Annotated[
        str,
        typer.Option(
            help="The experiment with which all others are compared.", show_default="HEAD, or experiment baseline"
        ),
    ] = "",
    model: Model = "gpt",
    test: WithTest = False,
    json: Json = False,
) -> None:
    """List all experiments, best first. The verdicts compare them with the baseline on the validation split."""
    from bukva.compare import records
    from bukva.compare.comparison import leaderboard
    from bukva.compare.groups import check_has
    from bukva.compare.results import default_baseline
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard(baseline or default_baseline(), model)
    if test:
        check_has(board.baseline.result, model, "test")
    digests = [rows[0].setting.result.about["text"].get("test", "") for rows in board.texts]
    seen, *_ = [records.looks_at_test(digest, more=int(test and digest != "")) for digest in digests]
    print_leaderboard(board, seen, with_test=test, as_json=json)
    if records.merge(row.setting for rows in board.texts for row in rows):
        copy = f"cp {records.FILE} {records.SHARED}"
        print(
            f"Scores of new seeds were saved in {records.FILE}. To share them: `{copy}`. Then commit {records.SHARED}.",
            file=sys.stderr,
        )


@app.command()
def seeds(
    n: Annotated[
        int,
        typer.Argument(help="Total number of seeds, including seeds that are already trained or queued.", max=1000),
    ],
    model: Model = "gpt",
    parallel: Annotated[int | None, PARALLEL] = None,
    address: sweep.Address = "",
) -> None:
    """Queue experiments that train the settings in params.yaml with more seeds. `dvc queue start` runs the queue.

    With --parallel or --address, the experiments run at once, on this machine or on a Ray cluster (docs/sweep.md).
    """
    from bukva.compare.seeds import more_seeds
    from bukva.sweep.trainer import SeedTrainer

    with SeedTrainer("seeds", parallel or 1, address) as trainer:
        for line in more_seeds(n, model, trainer if parallel or address else None):
            print(line, flush=True)


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="Name of an experiment, branch or tag, a commit, or `workspace`.")],
) -> None:
    """Check whether this checkout can reproduce a result byte for byte. If not, list what has changed."""
    from bukva.backends.device import prepare
    from bukva.compare.results import verify as verified
    from bukva.project.revisions import resolve

    name = resolve(name).name
    changes, command = verified(name, prepare(read_params().compute).numerics())
    if changes:
        print(f"{name} cannot be reproduced byte for byte in this checkout:", *changes, sep="\n  ")
        raise typer.Exit(1)
    print(f"{name} can be reproduced byte for byte in this checkout, because code, data and arithmetic are unchanged.")
    print(f"To reproduce this result: `{command}`")


@app.command()
def judge(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="One name: judge this try against the baseline of the ledger (the list of all tries). Two names: "
            "begin a ledger with the first experiment as baseline, and judge the second. No name: print the ledger."
        ),
    ] = None,
    model: Model = "gpt",
    level: Annotated[
        float,
        typer.Option(
            help="Largest fraction of the decisions to keep a try that may be wrong, on average. Used only when a "
            "ledger begins."
        ),
    ] = 0.1,
    final: Annotated[
        bool,
        typer.Option(
            "--final", help="Compare the try that was kept last with the first baseline on test. Close the ledger."
        ),
    ] = False,
    give_up: Annotated[
        bool,
        typer.Option("--give-up", help="Discard a try that has no verdict yet. Use this option if its training fails."),
    ] = False,
    parallel: Annotated[int, PARALLEL] = 1,
    address: sweep.Address = "",
    json: Json = False,
) -> None:
    """Decide whether to keep or discard a try. A try is an experiment that changes parameters or code of the baseline.

    The command trains the try with 1, 2, 4 and 8 seeds, until there is a verdict. It records all tries and verdicts in
    a file, the ledger. The option --level limits the fraction of wrong decisions among all decisions to keep a try
    (docs/research.md).

    The exit status is 0 for keep, 3 for discard, 4 if 8 seeds did not decide, and 1 or 2 after errors. It is also 0 for
    the experiment with which the ledger begins, and after a list of the tries.
    """
    from bukva.compare import judge as court
    from bukva.report import judge as show
    from bukva.report.comparison import print_comparisons
    from bukva.sweep.trainer import SeedTrainer

    names = names or []
    progress = contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()
    if len(names) > 2:
        raise BukvaError(
            f"judge: got {len(names)} names. Give the name of a try, or the names of a baseline and a try."
        )
    if final and (names or give_up):
        raise BukvaError("judge --final: this option takes no names and no other action. Run `bukva judge --final`.")
    if give_up and len(names) != 1:
        raise BukvaError("judge --give-up: give the name of one try. To list the tries: `bukva judge`.")
    if final:
        comparison = court.finish()
        print_comparisons([comparison], as_json=json)
        if not json:
            print(show.selection_bias_sentence(court.begun_ledger()))
        return
    if not names:
        show.print_ledger(court.begun_ledger(), as_json=json)
        return
    names = court.known_names(names)
    tried = names[-1]
    judged: Try | None
    with progress, SeedTrainer(f"judge-{tried}", parallel, address) as trainer:
        if give_up:
            judged = court.give_up(tried)
        else:
            # another single name is probably a try, and beginning a ledger with it would train eight seeds
            begins = len(names) == 2 or tried.partition("@")[0] in BASELINES
            ledger = court.begin(names[0], model, level, tried, trainer) if begins else court.begun_ledger(tried)
            if len(names) == 2:
                court.check_baseline(ledger, *names)
            judged = None if court.begins_with(ledger, tried) else court.judge(tried, trainer)
    if not judged:
        show.print_ledger(court.begun_ledger(), as_json=json)
        return
    _save_in_mlflow(tried, judged)
    show.print_try(judged, court.begun_ledger(), as_json=json)
    raise typer.Exit(JUDGED[judged.verdict])


def _save_in_mlflow(name: str, judged: "Try") -> None:
    """Save the verdict and the number of a try as tags of the MLflow run of experiment `name`."""
    from bukva.compare.results import results_of
    from bukva.tracking.record import run_of, save_note, start_sync

    with contextlib.suppress(BukvaError):  # the name is unknown since a commit
        [result] = results_of([name])
        made = run_of(result.lock, name)
        if made and save_note(made, {"bukva.judge": judged.verdict, "bukva.try": str(judged.number)}, {}):
            start_sync()


@app.command()
def ui(port: Port = 8050) -> None:
    """Start a web server that shows all experiments, the reports, the playground and MLflow.

    The command prints the URL. In the playground, two trained models continue your text. Ctrl-C stops the server.
    """
    from bukva.serving.app import serve

    serve("", port)


@app.command()
def report() -> None:
    """Write HTML pages about the last run and all experiments.

    The page about the last run is reports/index.html. It is also sent to MLflow. The page about all experiments is
    reports/experiments.html.
    """
    from bukva.report.page import build
    from bukva.tracking.record import run_of, save_note, start_sync

    for page in build(PAGE):
        print(f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    made = run_of(read_lock())
    if made and save_note(made, {}, {PAGE.name: PAGE.read_bytes()}):
        start_sync()
        print(f"report: {PAGE} is being sent to MLflow as an artifact of run {made.label}")


@app.command()
def play(port: Port = 8050) -> None:
    """Serve the playground, a web page on which two trained models continue your text.

    `bukva ui` serves the same page. Ctrl-C stops the server.
    """
    from bukva.serving.app import serve

    serve("/play", port)


@app.command()
def recipe(
    name: Annotated[str, typer.Argument(help="Name of a file in recipes/, without .yaml.", show_default=False)] = "",
) -> None:
    """Print a recipe as options for `dvc exp run`. Without a name, list the recipes.

    A recipe is a file in recipes/ that sets some of the parameters. To run the recipe ngrams:
    `dvc exp run $(bukva recipe ngrams)`

    To change a parameter of the recipe, add an option: `dvc exp run $(bukva recipe ngrams) -S model.n_head=8`
    """
    from bukva.project.commands import descriptions, options

    if not name:
        print(*(f"{recipe_name:10}{description}" for recipe_name, description in descriptions().items()), sep="\n")
        return
    try:
        print(*options(name))
    except BukvaError:
        # the shell runs `dvc exp run $(...)` even if this command fails, and DVC must not run without the recipe
        print(NO_RECIPE)
        raise


@app.command()
def plan(
    budget: Annotated[
        str,
        typer.Argument(help="Time that stage train-gpt may take, such as 90s, 10min or 1h30min.", show_default=False),
    ],
) -> None:
    """Propose a model size and a number of training steps for a time budget.

    The command trains models of several sizes for a few steps on this machine, and measures the time.
    """
    started_at = time.perf_counter()  # before the imports, because a stage also spends time on its imports
    from bukva.cli.planning import parse_budget, plans, propose, warnings
    from bukva.project.commands import settings

    params, made = read_params(), []
    for measured in plans(params, parse_budget(budget), started_at):
        print(f"plan: {measured}", flush=True)
        made.append(measured)
    chosen = propose(made)
    print(*warnings(chosen), f"Proposed: {chosen}", sep="\n")
    print(f"To train this model: `{' '.join(['dvc exp run', *settings(params.model_dump(), chosen.values())])}`")


@app.command()
def sync() -> None:
    """Send the results in this checkout to MLflow. The command can be repeated safely."""
    from bukva.tracking.sync import sync as send

    print(send())


@app.command()
def push() -> None:
    """Push the results of all stage runs to the DVC remote. Other clones can then restore these results."""
    from bukva.project.cache import push as send

    n_results, n_new = send()
    print(f"push: sent {count(n_new, 'new object')}. The remote now has the results of {count(n_results, 'stage')}.")
    print("push: Experiments were not pushed. To push an experiment: `dvc exp push origin NAME`")


@app.command()
def check() -> None:
    """Check params.yaml and the files that it names. `make repro` runs this command first."""
    from bukva.corpus.sources.works import check_for_dvc
    from bukva.project.lock import wrong_packages
    from bukva.project.revisions import has_identity, why_no_snapshots
    from bukva.tracking.experiment import print_uncommitted

    params = read_params()
    check_for_dvc("download.path", params.download.path)
    check_for_dvc("clean.file", params.clean.file)
    print_uncommitted(params)
    if why := why_no_snapshots():
        print(why)
    if wrong := wrong_packages():
        remedy = "To install: `pip install -r requirements.lock`."
        print(f"Results can differ from those of others: {'; '.join(wrong)}. {remedy}")
    if not has_identity():
        remedy = "`git config --global user.name NAME && git config --global user.email EMAIL`"
        print(f"git does not know your name and email. `dvc exp run` may need them. To set them: {remedy}")


@app.command()
def scores(
    with_test: WithTest = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all baselines, and how much the GPT gains from longer context.")
    ] = False,
) -> None:
    """Print the scores of the last run."""
    from bukva.compare.records import looks_at_test
    from bukva.report.terminal import context, headline, show, table, times_shown
    from bukva.scoring.char_scores import ABOUT
    from bukva.tracking.record import start_sync

    file, about = Path(paths()["score_table"]), Path(paths()["scores"], ABOUT)
    if not file.is_file():
        raise BukvaError(f"{file} does not exist. Run `make repro` to create it.")
    texts = read_json(about)["text"] if about.is_file() else {}
    if with_test and "test" not in texts:
        remedy = "Set `split.test` above 0 and run `dvc repro evaluate`."
        raise BukvaError(f"{about.parent} has no scores on test. {remedy}")
    saved = read_json(file)
    sentences = [headline(saved), *([context(saved)] if everything else [])]
    shown = table(saved, with_test=with_test, everything=everything)
    show("Bits per character (lower is better)", *shown, sentences)
    if with_test:
        print(times_shown(looks_at_test(texts["test"], more=1)), file=sys.stderr)
    start_sync()  # stage publish may not have run: DVC skips it if its inputs match dvc.lock
    print("\nTo see the losses of both models: `bukva ui`")


@app.command()
def baseline() -> None:
    """Save the results of the last run as experiment `baseline`, with which other experiments are compared.

    `make repro` runs this command last.
    """
    from bukva.project.baseline import save_baseline

    print(save_baseline())


app.add_typer(sweep.app, name="sweep")
