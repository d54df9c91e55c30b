"""Define the commands that compare experiments, queue more seeds, and check whether a result can be reproduced."""

import sys
from typing import Annotated

import typer

from bukva.config.load import read_params
from bukva.core.errors import BukvaError

Model = Annotated[str, typer.Option(help="The model to compare: gpt or bigram.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


# exit statuses of compare --exit-code; 1 and 2 are used for errors
STATUS = {"better": 0, "probably better": 0, "worse": 3, "probably worse": 3}
CANNOT_TELL = 4


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
        raise typer.Exit(STATUS.get(comparisons[0].verdict.verdict, CANNOT_TELL))


def experiments(
    baseline: Annotated[
        str,
        typer.Option(
            help="The experiment with which all others are compared.", show_default="HEAD, or experiment baseline"
        ),
    ] = "",
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Show the scores on test as well. Each use is counted.")] = False,
    json: Json = False,
) -> None:
    """List all experiments, best first. The verdicts compare them with the baseline on the validation split."""
    from bukva.compare import leaderboard, records
    from bukva.compare.results import default_baseline
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard.leaderboard(baseline or default_baseline(), model)
    digests = [rows["setting"].iloc[0].result.about["text"].get("test", "") for rows in board.texts]
    seen, *_ = [records.looks_at_test(digest, more=int(test)) for digest in digests]
    print_leaderboard(board, seen, with_test=test, as_json=json)
    if records.merge(board.table["setting"]):
        copy = f"cp {records.FILE} {records.SHARED}"
        print(
            f"Scores of new seeds were saved in {records.FILE}. To share them: `{copy}`. Then commit {records.SHARED}.",
            file=sys.stderr,
        )


def seeds(
    n: Annotated[
        int, typer.Argument(help="Total number of seeds, including seeds that are already trained or queued.")
    ],
    model: Model = "gpt",
) -> None:
    """Queue experiments that train the settings in params.yaml with more seeds. `dvc queue start` runs the queue."""
    from bukva.compare.seeds import queue_seeds

    for line in queue_seeds(n, model):
        print(line, flush=True)


def verify(
    name: Annotated[str, typer.Argument(help="Name of an experiment, branch or tag, a commit, or `workspace`.")],
) -> None:
    """Check whether this checkout can reproduce a result byte for byte. If not, list what has changed."""
    from bukva.backends.device import prepare
    from bukva.compare.results import verify as verified

    changes, command = verified(name, prepare(read_params().compute).numerics())
    if changes:
        print(f"{name} cannot be reproduced byte for byte in this checkout:", *changes, sep="\n  ")
        raise typer.Exit(1)
    print(f"{name} can be reproduced byte for byte in this checkout, because code, data and arithmetic are unchanged.")
    print(f"To reproduce this result: `{command}`")
