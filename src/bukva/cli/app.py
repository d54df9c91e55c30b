"""The command `bukva`, which pyproject.toml installs. A command reads, calls and prints, and imports what it needs."""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bukva.cli import comparing, judging
from bukva.cli import stage as cli
from bukva.config.load import PARAMS, read_params
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, sha256
from bukva.core.machine import prepare_torch
from bukva.project.stages import paths, trained_models
from bukva.sweep import commands as sweep

NO_RECIPE = "--no-such-recipe"  # an option that DVC lacks
ATTENTION, COUNTING, PAGE = Path("reports/attention"), Path("reports/counting"), Path("reports/index.html")
Port = Annotated[int, typer.Option(help="The port, or the first that is tried.")]

app = typer.Typer(
    no_args_is_help=True,
    help="Experiments with small language models: compare them, look at them, run many of them.",
    epilog="Run the pipeline itself with DVC: dvc repro, dvc exp run -S model.n_head=8.",
    **cli.STYLE,
)
for command in (comparing.compare, comparing.experiments, comparing.seeds, comparing.verify, judging.judge):
    app.command()(command)


def main() -> None:
    """Run the command line of this process."""
    cli.call(_run)


def _run() -> None:
    prepare_torch()
    if sys.argv[1:] and "--help" not in sys.argv and not PARAMS.exists():
        raise BukvaError(f"{Path.cwd()}: has no {PARAMS}; {_remedy()}")
    app(prog_name="bukva")


def _remedy() -> str:
    """Return how to get a folder with params.yaml: restore the file, or go to the project above, or to a clone."""
    root = project_root()
    if not (root / "dvc.yaml").is_file():
        return "go to the folder of a clone of bukva."
    restore = "" if (root / PARAMS).exists() else f"git checkout HEAD {PARAMS}"
    go = "" if root == Path.cwd().resolve() else f"cd {shlex.quote(str(root))}"
    return f"use `{' && '.join(filter(None, (go, restore)))}`."


@app.command()
def ui(port: Port = 8050) -> None:
    """Serve all experiments, reports, the playground and MLflow. Prints their one address; Ctrl-C ends it."""
    from bukva.serving.app import serve

    serve("", port)


@app.command()
def report() -> None:
    """Write the last run and all experiments as pages. reports/index.html and reports/experiments.html."""
    from bukva.report.page.build import build
    from bukva.tracking.experiment import this_experiment
    from bukva.tracking.journal import note, read_journals, start_sync

    for page in build(PAGE):
        print(f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    params = this_experiment(read_params()).params
    found = [journal for journal in read_journals() if journal.start["params"] == params]
    if found and note(name := found[-1].start["experiment"], {}, {PAGE.name: PAGE.read_bytes()}, found[-1].key):
        start_sync()
        print(f"report: {PAGE} becomes an artifact of the run {name} in MLflow")


@app.command()
def play(port: Port = 8050) -> None:
    """Write with the trained models in a browser. Two of them side by side, on a page that `bukva ui` has, too."""
    from bukva.serving.app import serve

    serve("/play", port)


@app.command()
def attention() -> None:
    """Draw what attention does in the trained GPT. Charts in reports/attention."""
    from bukva.backends.device import prepare
    from bukva.models.folder import load_model
    from bukva.studies.attention_charts import attention_report
    from bukva.studies.attention_study import study
    from bukva.text.splits import load_splits

    params, gpt = read_params(), _trained_gpt()
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    untrained, _ = load_model(gpt, "initial", machine.device)
    print("attention: studying the GPT before and after training (this takes a while)", flush=True)
    states = {"untrained": untrained, "trained": trained}
    numbers = study(states, tokenizer, load_splits(Path(paths()["split"])), params.evaluate, machine)
    attention_report(numbers, ATTENTION, sha256(gpt / "best.safetensors"))
    print(f"attention: wrote the charts and attention.json to {ATTENTION}")


@app.command()
def counting() -> None:
    """Show what a GPT with n-grams counts and learns. Charts in reports/counting."""
    from bukva.backends.device import prepare
    from bukva.models.folder import load_model
    from bukva.studies.counting_charts import counting_report, table
    from bukva.studies.counting_study import study
    from bukva.text.held_out import HeldOut
    from bukva.text.splits import load_lengths, load_splits

    params, gpt, split = read_params(), _trained_gpt(), Path(paths()["split"])
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    text = HeldOut(load_splits(split), load_lengths(split), tokenizer)
    print("counting: scoring val and repeating the first updates of the training (this takes a while)", flush=True)
    numbers = study(trained, text, params.evaluate, params.train_gpt, machine)
    counting_report(numbers, COUNTING)
    print(*table(numbers), sep="\n")
    print(f"counting: wrote the charts and counting.json to {COUNTING}")


@app.command()
def recipe(
    name: Annotated[str, typer.Argument(help="A file of recipes/, without .yaml.", show_default=False)] = "",
) -> None:
    """Print a recipe as options: dvc exp run $(bukva recipe NAME). Without a name, list the recipes.

    Further options change it: dvc exp run $(bukva recipe ngrams) -S model.n_head=8. A recipe is a file of a few
    parameters in recipes/.
    """
    from bukva.project.commands import descriptions, options

    if not name:
        for each, description in descriptions().items():
            print(f"{each:10}{description}")
        return
    try:
        print(*options(name))
    except BukvaError:
        print(NO_RECIPE)  # a shell goes on after a mistake in $(...), and DVC must not run the default
        raise


@app.command()
def plan(
    budget: Annotated[
        str, typer.Argument(help="How long stage train-gpt may take: 90s, 10min, 1h30min.", show_default=False)
    ] = "",
    gpu: Annotated[
        str, typer.Option(help="Predict for h100, h200, a100, l4 or rtx4090; measure nothing.", show_default=False)
    ] = "",
) -> None:
    """Propose size and steps for a time budget. Measures a few updates of several sizes here.

    With --gpu: predict memory and time of the training in params.yaml on a card that need not be here.
    """
    started_at = time.perf_counter()  # the imports below are part of the start-up of the stage, too
    from bukva.models.gpt import GPTConfig
    from bukva.planning.gpu import card_named, predicted
    from bukva.planning.plan import Planner, climb, load_text, parse_budget, propose, warnings
    from bukva.project.commands import settings

    params, plans = read_params(), []
    if gpu:
        card, seconds = card_named(gpu), parse_budget(budget) if budget else 0.0
        splits, tokenizer = load_text(params)
        config = GPTConfig(vocab_size=len(tokenizer), **params.model.model_dump())
        print(*predicted(config, params.train_gpt, card, len(splits["train"]), seconds), sep="\n")
        return
    if not budget:
        raise BukvaError("plan: no BUDGET and no --gpu; use for example `bukva plan 10min`.")
    planner = Planner(params, parse_budget(budget), started_at)
    for measured in climb(planner.plan):
        print(f"plan: {measured}", flush=True)
        plans.append(measured)
    chosen = propose(plans)
    print(*warnings(chosen), f"Proposed: {chosen}", sep="\n")
    print("Try it: dvc exp run", *settings(params.model_dump(), chosen.values()))


@app.command()
def sync() -> None:
    """Send to MLflow what has run here. Safe to repeat."""
    from bukva.tracking.sync import sync as send

    print(send())


@app.command()
def push() -> None:
    """Send all results to DVC's remote. Another clone then restores them instead of running the stages."""
    from bukva.project.cache import push as send

    print("push: the remote has the results of {} stage executions; {} objects were new to it.".format(*send()))
    print("push: experiments are sent by name: dvc exp push origin NAME")


@app.command()
def check() -> None:
    """Validate params.yaml and the files that it names. `make repro` begins with it."""
    from bukva.corpus.sources.works import check_for_dvc
    from bukva.project.revisions import has_identity, why_no_snapshots
    from bukva.tracking.experiment import print_uncommitted

    params = read_params()
    check_for_dvc("download.path", params.download.path)
    check_for_dvc("clean.file", params.clean.file)
    print_uncommitted(params)
    if why := why_no_snapshots():
        print(why)
    if not has_identity():
        print("git does not know your name, which dvc exp run may need; set git config user.name and user.email.")


@app.command()
def scores(
    with_test: Annotated[bool, typer.Option("--test", help="Show test, too; each look is counted.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every baseline, and what longer context is worth.")
    ] = False,
) -> None:
    """Print the scores of the last run."""
    from bukva.compare.records import looks_at_test
    from bukva.report.terminal import context, headline, show, table
    from bukva.text.scores import ABOUT
    from bukva.tracking.journal import start_sync

    file, about = Path(paths()["score_table"]), Path(paths()["scores"], ABOUT)
    if not file.is_file():
        raise BukvaError(f"{file}: is missing, because no run has written it; run `make repro`.")
    texts = read_json(about)["text"] if about.is_file() else {}
    if with_test and "test" not in texts:
        raise BukvaError(f"{about.parent}: has no scores on test; run `dvc repro evaluate`, with split.test above 0.")
    found = read_json(file)
    sentences = [headline(found), *([context(found)] if everything else [])]
    shown = table(found, with_test=with_test, everything=everything)
    show("Bits per character (lower is better)", *shown, sentences)
    if with_test:
        print(f"Looks at scores on this test text so far: {looks_at_test(texts['test'], more=1)}", file=sys.stderr)
    start_sync()  # DVC skips stage publish where its inputs are those of dvc.lock
    print("\nLook at the losses of both models: bukva ui")


@app.command()
def baseline() -> None:
    """Save the last run as experiment `baseline`, with which others are compared. `make repro` ends with it."""
    from bukva.project.baseline import save_baseline

    print(save_baseline())


app.add_typer(sweep.app, name="sweep")


def _trained_gpt() -> Path:
    """Return the folder of the GPT.

    Raises:
        BukvaError: the GPT is not trained, or the text is not split.
    """
    gpt = trained_models()["gpt"].folder
    if not gpt.exists() or not list(Path(paths()["split"]).glob("*.npy")):
        raise BukvaError(f"{gpt}: the GPT is not trained yet. Run `dvc repro train-gpt` to train it.")
    return gpt
