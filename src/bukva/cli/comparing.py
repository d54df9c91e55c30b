"""Commands that compare experiments, queue more seeds, and check whether a result can be reproduced."""

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
            help="First A, then the experiments to compare with A. Each is the name of an experiment, branch or tag, a "
            "commit, or `workspace` (the current files). A single name is compared with the baseline."
        ),
    ],
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Compare on test instead of val. Each use is counted.")] = False,
    seed: Annotated[
        list[int] | None, typer.Option(help="Use only trainings with this seed. The option can be repeated.")
    ] = None,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive", help="Compare the scores of the GPT with online adaptation to the text (docs/adaptive.md)."
        ),
    ] = False,
    json: Json = False,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code",
            help="Exit with 0 if B is (probably) better, 3 if it is (probably) worse, 4 if neither, 1 or 2 on errors.",
        ),
    ] = False,
) -> None:
    """Compare experiment B with A. The verdict says whether B is better, by how much, and how certain this is."""
    from bukva.compare import records
    from bukva.compare.comparison import compare as compared
    from bukva.compare.results import default_baseline
    from bukva.report.comparison import show_and_save
    from bukva.report.terminal import times_shown

    if len(names) == 1:
        names = [default_baseline(), *names]
    if exit_code and len(names) > 2:
        raise BukvaError(
            f"compare --exit-code: use two names, not {len(names)}; an exit status can report only one verdict."
        )
    comparisons = compared(names, model, "test" if test else "val", seed or [], adaptive=adaptive)
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
            help="Experiment with which all others are compared.", show_default="HEAD, or experiment baseline"
        ),
    ] = "",
    model: Model = "gpt",
    test: Annotated[bool, typer.Option("--test", help="Show the scores on test as well. Each use is counted.")] = False,
    json: Json = False,
) -> None:
    """List all experiments, the best first. A verdict in each row compares the experiment with the baseline on val."""
    from bukva.compare import leaderboard, records
    from bukva.compare.results import default_baseline
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard.leaderboard(baseline or default_baseline(), model)
    digests = [rows[0].setting.result.about["text"].get("test", "") for rows in board.texts]
    seen, *_ = [records.looks_at_test(digest, more=int(test)) for digest in digests]
    print_leaderboard(board, seen, with_test=test, as_json=json)
    if records.merge(row.setting for rows in board.texts for row in rows):
        copy = f"cp {records.FILE} {records.SHARED}"
        print(
            f"Scores of new seeds were saved in {records.FILE}. To share them, run `{copy}` and commit the file.",
            file=sys.stderr,
        )


def seeds(
    n: Annotated[int, typer.Argument(help="Number of seeds that the settings in params.yaml should have in total.")],
    model: Model = "gpt",
) -> None:
    """Queue experiments with more seeds for the settings in params.yaml. `dvc queue start` then runs them."""
    from bukva.compare.seeds import queue_seeds

    for line in queue_seeds(n, model):
        print(line, flush=True)


def verify(
    name: Annotated[str, typer.Argument(help="Name of an experiment, branch or tag, a commit, or `workspace`.")],
) -> None:
    """Check whether a result can be reproduced byte for byte. If not, the command lists what has changed."""
    from bukva.backends.device import prepare
    from bukva.compare.results import verify as verified

    changes, command = verified(name, prepare(read_params().compute).numerics())
    if changes:
        print(f"{name}: cannot be reproduced here byte for byte:", *changes, sep="\n  ")
        raise typer.Exit(1)
    print(f"{name}: can be reproduced here byte for byte, because code, data and arithmetic are unchanged.")
    print(f"To reproduce it: {command}")
