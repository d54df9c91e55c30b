"""Define the commands that compare and judge experiments, queue more seeds, and check if a result can be reproduced."""

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bukva.core.errors import BukvaError
from bukva.core.params import read_params

if TYPE_CHECKING:
    from bukva.compare.judge import Try

Model = Annotated[str, typer.Option(help="The model to compare: gpt or bigram.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# exit statuses of compare --exit-code and of judge; 1 and 2 are used for errors
CANNOT_TELL = 4
COMPARED = {"better": 0, "probably better": 0, "worse": 3, "probably worse": 3}
JUDGED = {"keep": 0, "discard": 3, "cannot tell": CANNOT_TELL}
BASELINES = "HEAD", "baseline"  # `bukva judge NAME` begins a ledger if NAME is one of these


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
    from bukva.compare import records
    from bukva.compare.comparison import leaderboard
    from bukva.compare.groups import check_has
    from bukva.compare.results import default_baseline
    from bukva.report.leaderboard import print_leaderboard

    board = leaderboard(baseline or default_baseline(), model)
    if test:
        check_has(board.baseline.result, model, "test")
    digests = [rows["setting"].iloc[0].result.about["text"].get("test", "") for rows in board.texts]
    seen, *_ = [records.looks_at_test(digest, more=int(test and digest != "")) for digest in digests]
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
    json: Json = False,
) -> None:
    """Decide whether to keep or discard a try. A try is an experiment that changes parameters or code of the baseline.

    The command trains the try with 1, 2, 4 and 8 seeds, until there is a verdict. It records all tries and verdicts in
    a file, the ledger. The option --level limits the fraction of wrong decisions among all decisions to keep a try
    (docs/research.md).

    The exit status is 0 for keep, 3 for discard, 4 if 8 seeds did not decide, and 1 or 2 after errors.
    """
    from bukva.compare import judge as court
    from bukva.compare import records
    from bukva.report import judge as show
    from bukva.report.comparison import print_comparisons

    ledger, names = court.read_ledger(), names or []
    print_line = (lambda _: None) if json else partial(print, flush=True)
    if len(names) > 2:
        raise BukvaError(
            f"judge: got {len(names)} names. Give the name of a try, or the names of a baseline and a try."
        )
    if give_up and not names:
        raise BukvaError("judge --give-up: the name of the try is missing. To list the tries: `bukva judge`.")
    trains = names and not final and not give_up
    if ledger is None:
        # a single name is probably a try, and beginning a ledger with this name would train eight seeds
        if not trains or (len(names) == 1 and names[0] not in BASELINES):
            command = f"bukva judge BASELINE {names[0] if trains else 'TRY'}"
            raise BukvaError(f"No ledger (list of tries) exists yet. To begin a ledger: `{command}`.")
        ledger = court.begin(names[0], model, level, print_line, names[-1])
    elif trains and len(names) == 2 and names[0] != ledger.baseline.name:
        raise BukvaError(
            f"judge: {names[0]} is not the baseline of the ledger. The baseline is {ledger.baseline.name}. Give only "
            f"the name of the try: `bukva judge {names[1]}`."
        )
    if final:
        comparison = court.finish(ledger)
        print_comparisons([comparison], as_json=json)
        records.looks_at_test(comparison.a.result.about["text"]["test"], more=1)
        if not json:
            print(show.selection_bias_sentence(ledger))
    elif not names:
        show.print_ledger(ledger, as_json=json)
    elif give_up:
        show.print_try(court.give_up(names[-1], ledger), court.read_ledger() or ledger, as_json=json)
        raise typer.Exit(JUDGED["discard"])
    elif names[-1] == ledger.first.name:
        court.complete_baseline(ledger, print_line)
    else:
        judged = court.judge(names[-1], ledger, print_line)
        _save_in_mlflow(names[-1], judged)
        show.print_try(judged, court.read_ledger() or ledger, as_json=json)
        raise typer.Exit(JUDGED[judged.verdict])


def _save_in_mlflow(name: str, judged: "Try") -> None:
    """Save the verdict and the number of a try as tags of the MLflow run of experiment `name`."""
    from bukva.compare.results import results_of
    from bukva.tracking.journal import journal_of, save_note, start_sync

    with contextlib.suppress(BukvaError):  # the name is unknown since a commit
        [result] = results_of([name])
        made = journal_of(result.lock, name)
        if made and save_note(made, {"bukva.judge": judged.verdict, "bukva.try": str(judged.number)}, {}):
            start_sync()
