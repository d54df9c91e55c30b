"""Define the command `bukva judge`, which decides whether to keep or discard a change of parameters or code."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from bukva.cli.comparing import CANNOT_TELL, Json, Model
from bukva.core.errors import BukvaError

if TYPE_CHECKING:
    from bukva.compare.ledger import Ledger, Try

BASELINES = "HEAD", "baseline"  # `bukva judge NAME` begins a ledger if NAME is one of these
STATUS = {"keep": 0, "discard": 3, "cannot tell": CANNOT_TELL}


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
    from bukva.compare.ledger import read_ledger
    from bukva.report import judge as show

    ledger, names = read_ledger(), names or []
    if len(names) > 2:
        raise BukvaError(
            f"judge: got {len(names)} names. Give the name of a try, or the names of a baseline and a try."
        )
    if final:
        _final(ledger, as_json=json)
        return
    if give_up and not names:
        raise BukvaError("judge --give-up: the name of the try is missing. To list the tries: `bukva judge`.")
    if not names:
        show.print_ledger(_known(ledger), as_json=json)
        return
    if give_up:
        show.print_try(court.give_up(names[-1], _known(ledger)), _known(read_ledger()), as_json=json)
        raise typer.Exit(STATUS["discard"])
    print_line = show.line_printer(quiet=json)
    if ledger is None:
        # a single name is probably a try, and beginning a ledger with this name would train eight seeds
        if len(names) == 1 and names[0] not in BASELINES:
            raise BukvaError(
                f"No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE {names[0]}`."
            )
        ledger = court.begin(names[0], model, level, print_line, names[-1])
    elif len(names) == 2 and names[0] != ledger.baseline.name:
        raise BukvaError(
            f"judge: {names[0]} is not the baseline of the ledger. The baseline is {ledger.baseline.name}. Give only "
            f"the name of the try: `bukva judge {names[1]}`."
        )
    if names[-1] == ledger.first.name:
        court.complete_baseline(ledger, print_line)
        return
    judged = court.judge(names[-1], ledger, print_line)
    _save_in_mlflow(judged)
    show.print_try(judged, read_ledger() or ledger, as_json=json)
    raise typer.Exit(STATUS[judged.verdict])


def _known(ledger: "Ledger | None") -> "Ledger":
    if ledger is None:
        raise BukvaError("No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE TRY`.")
    return ledger


def _final(ledger: "Ledger | None", *, as_json: bool) -> None:
    from bukva.compare import judge as court
    from bukva.compare import records
    from bukva.report.comparison import print_comparisons
    from bukva.report.judge import print_selection_bias

    comparison = court.finish(_known(ledger))
    print_comparisons([comparison], as_json=as_json)
    records.looks_at_test(comparison.a.result.about["text"]["test"], more=1)
    if not as_json:
        print_selection_bias(_known(ledger))


def _save_in_mlflow(judged: "Try") -> None:
    """Save the verdict and the number of a try as tags of the experiment's run in MLflow."""
    from bukva.compare.results import read_results
    from bukva.project.lock import StageRecord
    from bukva.project.revisions import resolve
    from bukva.tracking.journal import journal_of, save_note, start_sync

    name, lock = judged.trained.name, dict[str, StageRecord]()
    with suppress(BukvaError):  # the experiment was judged before, and removed since
        lock |= read_results([resolve(name)])[0].lock
    made = journal_of(lock, name)
    if made and save_note(made, {"bukva.judge": judged.verdict, "bukva.try": str(judged.number)}, {}):
        start_sync()
