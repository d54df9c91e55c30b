"""Commands about several experiments: which is better, more seeds of one, whether one can be made again."""

import sys
from typing import Annotated

import typer

from bukva.config.load import read_params
from bukva.core.errors import BukvaError

Model = Annotated[str, typer.Option(help="The model to compare: gpt or bigram.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


STATUS = {"better": 0, "probably better": 0, "worse": 3, "probably worse": 3}  # of compare --exit-code
CANNOT_TELL = 4  # 1 and 2 are those of a mistake


def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Experiments, branches, tags, commits or workspace: A, then B and others. One: against the baseline."
        ),
    ],
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Compare on test instead of val; each look is counted.")] = False,
    seed: Annotated[
        list[int] | None, typer.Option(help="Only trainings with this seed; several times for more.")
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="Compare scores of the GPT while it learns on (docs/adaptive.md).")
    ] = False,
    json: Json = False,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 0 if B is (probably) better, 3 if (probably) worse, 4 if neither, 1 or 2 after a mistake.",
        ),
    ] = False,
) -> None:
    """Say whether B is better than A. By how much, and how sure that is."""
    from bukva.compare import records
    from bukva.compare.comparison import compare as compared
    from bukva.compare.results import default_baseline
    from bukva.report.comparison import show_and_keep

    if len(names) == 1:
        names = [default_baseline(), *names]
    if exit_code and len(names) > 2:
        raise BukvaError(f"compare --exit-code: {len(names)} names; use two, because it has one status.")
    comparisons = compared(names, model, "test" if test else "val", seed or [], adaptive=adaptive)
    show_and_keep(comparisons, as_json=json)
    if test:
        n = records.looks_at_test(comparisons[0].a.result.about["text"]["test"], more=1)
        print(f"Looks at scores on this test text so far: {n}", file=sys.stderr)
    if exit_code:
        raise typer.Exit(STATUS.get(comparisons[0].verdict.verdict, CANNOT_TELL))


def experiments(
    baseline: Annotated[
        str, typer.Option(help="Compare all with this one.", show_default="HEAD, or experiment baseline")
    ] = "",
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Show test scores, too; this is counted.")] = False,
    json: Json = False,
) -> None:
    """List all experiments by their score. Each with its verdict against the baseline, on val."""
    from bukva.compare import leaderboard, records
    from bukva.compare.results import default_baseline
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard.leaderboard(baseline or default_baseline(), model)
    digests = [rows[0].setting.result.about["text"].get("test", "") for rows in board.texts]
    seen, *_ = [records.looks_at_test(digest, more=int(test)) for digest in digests]
    print_leaderboard(board, seen, with_test=test, as_json=json)
    if records.merge(row.setting for rows in board.texts for row in rows):
        share = f"cp {records.FILE} {records.SHARED}"
        print(f"The noise floor has new seeds ({records.FILE}). To share them, commit them: {share}", file=sys.stderr)


def seeds(
    n: Annotated[int, typer.Argument(help="How many seeds the settings of params.yaml should have.")],
    model: Model = "gpt",
) -> None:
    """Queue more seeds of the settings of params.yaml. `dvc queue start` runs them."""
    from bukva.compare.seeds import queue_seeds

    for line in queue_seeds(n, model):
        print(line, flush=True)


def verify(name: Annotated[str, typer.Argument(help="An experiment, branch, tag, commit or workspace.")]) -> None:
    """Say whether a result can be made again. From the checkout and to the same bytes, or what has changed."""
    from bukva.backends.device import prepare
    from bukva.compare.results import verify as verified

    changes, command = verified(name, prepare(read_params().compute).numerics())
    if changes:
        print(f"{name}: cannot be made again here, to the same bytes:", *changes, sep="\n  ")
        raise typer.Exit(1)
    print(f"{name}: can be made again here, to the same bytes: code, data and arithmetic are those that made it.")
    print(f"To make it again: {command}")
