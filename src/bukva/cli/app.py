"""Define the command `bukva`. Subcommands import slow packages themselves, so that `bukva --help` answers quickly."""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bukva.cli import comparing
from bukva.cli import stage as cli
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, sha256
from bukva.core.machine import prepare_torch
from bukva.core.params import PARAMS, read_params
from bukva.core.words import count
from bukva.project.lock import read_lock
from bukva.project.stages import paths, trained_models
from bukva.sweep import commands as sweep

NO_RECIPE = "--no-such-recipe"  # DVC rejects this option
ATTENTION, PAGE = Path("reports/attention"), Path("reports/index.html")
Port = Annotated[int, typer.Option(help="Port of the server. If the port is taken, the next free port is used.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Compare, inspect and run experiments with small language models.",
    epilog="To run the pipeline, use DVC: `dvc repro`, or `dvc exp run -S model.n_head=8`.",
    **cli.STYLE,
)
for command in (comparing.compare, comparing.experiments, comparing.seeds, comparing.verify, comparing.judge):
    app.command()(command)


def main() -> None:
    """Run the command line."""
    cli.call(_run)


def _run() -> None:
    prepare_torch()
    if sys.argv[1:] and "--help" not in sys.argv and not PARAMS.exists():
        root = project_root()
        go = [] if root == Path.cwd().resolve() else [f"cd {shlex.quote(str(root))}"]
        restore = [] if (root / PARAMS).exists() else [f"git checkout HEAD {PARAMS}"]
        is_clone = (root / "dvc.yaml").is_file()
        remedy = f"Run `{' && '.join(go + restore)}`." if is_clone else "Change to the folder of a clone of bukva."
        raise BukvaError(f"{Path.cwd()}: this folder has no {PARAMS}. {remedy}")
    app(prog_name="bukva")


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
    from bukva.tracking.journal import journal_of, save_note, start_sync

    for page in build(PAGE):
        print(f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    made = journal_of(read_lock(project_root()))
    if made and save_note(made, {}, {PAGE.name: PAGE.read_bytes()}):
        start_sync()
        print(f"report: {PAGE} is being sent to MLflow as an artifact of run {made.start['label']}")


@app.command()
def play(port: Port = 8050) -> None:
    """Serve the playground, a web page on which two trained models continue your text.

    `bukva ui` serves the same page. Ctrl-C stops the server.
    """
    from bukva.serving.app import serve

    serve("/play", port)


@app.command()
def attention(
    sentence: Annotated[str, typer.Option(help="Text whose attention is drawn. By default, a line of val.")] = "",
) -> None:
    """Draw charts that show what the attention heads of the trained GPT attend to. Write them to reports/attention."""
    from bukva.backends.device import prepare
    from bukva.models.folder import load_model
    from bukva.studies.attention_charts import attention_report
    from bukva.studies.attention_study import study
    from bukva.text.ids import load_splits

    params, gpt = read_params(), trained_models()["gpt"].folder
    if not gpt.exists() or not list(Path(paths()["split"]).glob("*.npy")):
        raise BukvaError(f"{gpt}: the GPT is not trained yet. Run `dvc repro train-gpt` to train it.")
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    untrained, _ = load_model(gpt, "initial", machine.device)
    print("attention: measuring the attention of the GPT before and after training. This takes a while.", flush=True)
    states = {"untrained": untrained, "trained": trained}
    numbers = study(states, tokenizer, load_splits(Path(paths()["split"])), sentence, machine)
    attention_report(numbers, ATTENTION, sha256(gpt / "best.safetensors"))
    print(f"attention: wrote the charts and attention.json to {ATTENTION}")


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
    with_test: Annotated[
        bool, typer.Option("--test", help="Show the scores on test as well. Each use is counted.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all baselines, and how much the GPT gains from longer context.")
    ] = False,
) -> None:
    """Print the scores of the last run."""
    from bukva.compare.records import looks_at_test
    from bukva.report.terminal import context, headline, show, table, times_shown
    from bukva.text.scores import ABOUT
    from bukva.tracking.journal import start_sync

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
