"""Commands about several experiments: which is better, more seeds of one, whether one can be made again."""

import sys
from typing import Annotated

import typer

from bukva.base.errors import BukvaError
from bukva.base.threads import limit_spinning
from bukva.config.load import read_params

Model = Annotated[str, typer.Option(help="The model to compare: gpt or bigram.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def compare(
    names: Annotated[
        list[str], typer.Argument(help="Experiments, branches, tags, commits or workspace: A, then B and others.")
    ],
    model: Model = "gpt",
    split: Annotated[str, typer.Option(help="val or test; each look at test is counted.")] = "test",
    seed: Annotated[
        list[int] | None, typer.Option(help="Only trainings with this seed; several times for more.")
    ] = None,
    json: Json = False,
) -> None:
    """Say whether B is better than A. By how much, and how sure that is."""
    from bukva.experiments import looks
    from bukva.experiments.comparison import compare as compared
    from bukva.report import comparison as show
    from bukva.tracking.background import start_sync
    from bukva.tracking.notes import add_section

    if len(names) < 2:
        raise BukvaError("compare: one name; use two or more: bukva compare A B")
    comparisons = compared(names, model, split, seed or ())
    show.print_comparisons(comparisons, as_json=json)
    noted = [each.b.name for each in comparisons if add_section(each.b.name, show.title(each), show.markdown(each))]
    start_sync(noted)
    if split == "test":
        n = looks.count_look(comparisons[0].a.result.about["text"]["test"])
        print(f"Looks at scores on this test text so far: {n}", file=sys.stderr)


def experiments(
    baseline: Annotated[str, typer.Option(help="What all are compared with.")] = "HEAD",
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Show test scores, too; this is counted.")] = False,
    json: Json = False,
) -> None:
    """List all experiments by their score. Each with its verdict against the baseline, on val."""
    from bukva.experiments import leaderboard, looks, noise
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard.leaderboard(baseline, model)
    text = board.baseline.result.about["text"].get("test", "")
    seen = looks.count_look(text) if test else looks.looks(text)
    print_leaderboard(board, seen, with_test=test, as_json=json)
    if noise.merge(board.groups):
        print(f"The noise floor has new seeds; commit {noise.FILE}.", file=sys.stderr)


def seeds(
    n: Annotated[int, typer.Argument(help="How many seeds the present configuration should have.")],
    model: Model = "gpt",
) -> None:
    """Queue more seeds of the present settings. `dvc queue start` runs them."""
    from bukva.experiments.seeds import queue_seeds

    for line in queue_seeds(n, model):
        print(line, flush=True)


def verify(name: Annotated[str, typer.Argument(help="An experiment, branch, tag, commit or workspace.")]) -> None:
    """Say whether a result can be made again. From the checkout and to the same bytes, or what has changed."""
    limit_spinning()
    from bukva.experiments.verify import sentences
    from bukva.experiments.verify import verify as verified
    from bukva.training.device import prepare

    found = verified(name, prepare(read_params().compute).numerics())
    for line in sentences(name, found):
        print(line)
    if not found.is_reproducible:
        raise typer.Exit(1)
