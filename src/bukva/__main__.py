"""Commands of the Makefile beside the pipeline: python -m bukva COMMAND."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bukva.base.errors import BukvaError
from bukva.base.files import read_json, sha256
from bukva.base.threads import limit_spinning, use_large_pages
from bukva.config.load import read_params, read_yaml
from bukva.stage import cli

app = typer.Typer(no_args_is_help=True, **cli.STYLE)


@app.command()
def check() -> None:
    """Validate params.yaml, as every stage does before its work, and the folder of texts, which DVC reads first."""
    from bukva.corpus.sources.entries import check_for_dvc
    from bukva.tracking.experiment import print_uncommitted

    params = read_params()
    check_for_dvc(params.download.path)
    print_uncommitted(params)


@app.command()
def scores(table_file: Annotated[Path, typer.Argument(help="scores.json of stage evaluate.")]) -> None:
    """Print the scores as a table, and the next command."""
    from rich.console import Console

    from bukva.pipeline.stages import paths
    from bukva.report.terminal import against_counting, best_baseline, table, verdict
    from bukva.scoring.characters import CharScores, files_of

    values, characters = read_json(table_file), Path(paths()["scores"])
    console = Console(highlight=False)
    console.print(table(values))
    for sentence in (verdict(values), *best_baseline(values)):
        console.print(sentence, soft_wrap=True)
    if characters.is_dir():
        for sentence in against_counting(values, CharScores.read(files_of(characters))):
            console.print(sentence, soft_wrap=True)
    console.print("\nLook at the losses of both models: make ui", soft_wrap=True)
    if _lock_is_new():
        console.print(
            "\ndvc.lock differs from the last commit. Experiments are compared with that commit; next:", soft_wrap=True
        )
        console.print('git commit -am "Baseline on this machine"', soft_wrap=True)


@app.command()
def attention(folder: Annotated[Path, typer.Argument(help="Folder to write: figures, and attention.json.")]) -> None:
    """Study the attention of the trained GPT, and draw it."""
    limit_spinning()
    from bukva.corpus.splits.folder import load_splits
    from bukva.interpret.study import study
    from bukva.models.folder import load_model
    from bukva.pipeline.stages import paths, trained_models
    from bukva.report.attention import attention_report
    from bukva.training.device import prepare

    params, gpt = read_params(), trained_models()["gpt"].folder
    splits = load_splits(Path(paths()["split"]))
    if not gpt.exists() or not splits:
        raise BukvaError(f"{gpt}: the GPT is not trained yet; run `dvc repro train-gpt`.")
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    untrained, _ = load_model(gpt, "initial", machine.device)
    print("attention: studying the GPT before and after training, which takes a while", flush=True)
    states = {"untrained": untrained, "trained": trained}
    found = study(states, tokenizer, splits, params.evaluate, machine)
    attention_report(found, folder, sha256(gpt / "best.safetensors"))
    print(f"attention: {folder} has the figures and attention.json")


@app.command()
def counting(folder: Annotated[Path, typer.Argument(help="Folder to write: figures, and counting.json.")]) -> None:
    """Show which characters the trained GPT predicts by counting, and which by learning."""
    limit_spinning()
    from bukva.corpus.splits.folder import load_lengths, load_splits
    from bukva.interpret.counting import Counting
    from bukva.models.folder import load_model
    from bukva.pipeline.stages import paths, trained_models
    from bukva.report.counting import counting_report, table
    from bukva.training.device import prepare

    params, gpt, split = read_params(), trained_models()["gpt"].folder, Path(paths()["split"])
    splits = load_splits(split)
    if not gpt.exists() or not splits:
        raise BukvaError(f"{gpt}: the GPT is not trained yet; run `dvc repro train-gpt`.")
    machine = prepare(params.compute)
    trained, tokenizer = load_model(gpt, "best", machine.device)
    study = Counting(trained, tokenizer, splits, load_lengths(split), machine)
    print("counting: scoring val, and repeating the first updates, which takes a while", flush=True)
    numbers = study.study(params.evaluate, params.train_gpt)
    counting_report(numbers, folder)
    for line in table(numbers):
        print(line)
    print(f"counting: {folder} has the figures and counting.json")


@app.command()
def report(path: Annotated[Path, typer.Argument(help="The page to write, one HTML file.")]) -> None:
    """Write the report pages of the last run and of all experiments: look at them in a browser, or send them."""
    limit_spinning()
    from bukva.report.page.build import build
    from bukva.tracking.background import start_sync
    from bukva.tracking.checkout import experiment_of_checkout
    from bukva.tracking.notes import attach
    from bukva.tracking.ui import link_to_experiment

    for page in build(path, link_to_experiment):
        print(f"report: {page} ({page.stat().st_size / 1e6:.1f} MB)")
    experiment = experiment_of_checkout()
    if experiment and attach(*experiment, path):
        start_sync([experiment[0]])
        print(f"report: {path} becomes an artifact of the run {experiment[0]} in MLflow")


@app.command()
def play(port: Annotated[int, typer.Option(help="The port, or the first that is tried.")] = 8050) -> None:
    """Serve a page on this machine on which to write with trained models, two side by side."""
    limit_spinning()
    from bukva.serving.playground.server import serve

    serve(read_params(), port)


@app.command()
def plan(
    budget: Annotated[str, typer.Argument(help="How long stage train-gpt may take: 90s, 10min, 1h30min.")],
    write: Annotated[bool, typer.Option("--write", help="Put the proposal into params.yaml.")] = False,
) -> None:
    """Measure a few updates of several sizes, and propose size, batch and steps for a time budget."""
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
        console.print(f"Write them to params.yaml: make plan BUDGET={budget} WRITE=1", soft_wrap=True)


@app.command()
def compare(
    names: Annotated[
        list[str], typer.Argument(help="Experiments, branches, tags, commits or workspace: A, then B and others.")
    ],
    model: Annotated[str, typer.Option(help="The model to compare.")] = "gpt",
    split: Annotated[str, typer.Option(help="val or test; each look at test is counted.")] = "test",
    seed: Annotated[
        list[int] | None, typer.Option(help="Only trainings with this seed; several times for more.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether B is better than A, by how much, and how sure that is."""
    from bukva.experiments import looks
    from bukva.experiments.comparison import compare as compared
    from bukva.report import comparison as show
    from bukva.tracking.background import start_sync
    from bukva.tracking.notes import add_section

    if len(names) < 2:
        raise BukvaError("compare: one name; use two or more: python -m bukva compare A B")
    comparisons = compared(names, model, split, seed or ())
    show.print_comparisons(comparisons, as_json=json)
    noted = [each.b.name for each in comparisons if add_section(each.b.name, show.title(each), show.markdown(each))]
    start_sync(noted)
    if split == "test":
        n = looks.count_look(comparisons[0].a.result.about["text"]["test"])
        print(f"Looks at scores on this test text so far: {n}", file=sys.stderr)


@app.command()
def experiments(
    baseline: Annotated[str, typer.Option(help="What all are compared with.")] = "HEAD",
    model: Annotated[str, typer.Option(help="The model to compare.")] = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Show test scores, too; this is counted.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the leaderboard: all experiments by val, with their verdicts against the baseline."""
    from bukva.experiments import leaderboard, looks, noise
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard.leaderboard(baseline, model)
    text = board.baseline.result.about["text"].get("test", "")
    seen = looks.count_look(text) if test else looks.looks(text)
    print_leaderboard(board, seen, with_test=test, as_json=json)
    if noise.merge(board.groups):
        print(f"The noise floor has new seeds; commit {noise.FILE}.", file=sys.stderr)


@app.command()
def seeds(
    n: Annotated[int, typer.Argument(help="How many seeds the present configuration should have.")],
    model: Annotated[str, typer.Option(help="The model whose seed changes.")] = "gpt",
) -> None:
    """Queue the missing seeds of the present configuration."""
    from bukva.experiments.seeds import queue_seeds

    for line in queue_seeds(n, model):
        print(line, flush=True)


@app.command()
def verify(name: Annotated[str, typer.Argument(help="An experiment, branch, tag, commit or workspace.")]) -> None:
    """Say whether a result can be made again from the checkout, to the same bytes, or what has changed."""
    limit_spinning()
    from bukva.experiments.verify import sentences
    from bukva.experiments.verify import verify as verified
    from bukva.training.device import prepare

    found = verified(name, prepare(read_params().compute).numerics())
    for line in sentences(name, found):
        print(line)
    if not found.is_reproducible:
        raise typer.Exit(1)


@app.command()
def push() -> None:
    """Send the results of all stages that ran here to DVC's remote; another clone then restores instead of running."""
    from bukva.experiments.remote import is_uncommitted
    from bukva.experiments.remote import push as send

    entries, objects = send()
    print(f"push: the remote has the results of {entries} stage executions; {objects} objects were new to it.")
    print("push: experiments are sent by name: dvc exp push origin NAME")
    if is_uncommitted():
        print("push: `dvc exp apply` removes a remote from .dvc/config; use dvc remote add --local -d NAME ADDRESS.")


def _lock_is_new() -> bool:
    """Whether dvc.lock differs from that of the last commit, or is not committed."""
    status = subprocess.run(["git", "status", "--porcelain", "--", "dvc.lock"], capture_output=True)
    return bool(status.stdout)


if __name__ == "__main__":
    cli.call(app)
