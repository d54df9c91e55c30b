"""The command that judges one try after the other."""

from typing import TYPE_CHECKING, Annotated

import typer

from bukva.cli.comparing import CANNOT_TELL, Json, Model
from bukva.core.errors import BukvaError

if TYPE_CHECKING:
    from bukva.compare.ledger import Ledger, Try

BASELINES = "HEAD", "baseline"  # names that begin a ledger alone
STATUS = {"keep": 0, "discard": 3, "cannot tell": CANNOT_TELL}


def judge(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="A B: begin with baseline A. B: against the ledger's baseline. None: show the ledger."),
    ] = None,
    model: Model = "gpt",
    level: Annotated[
        float, typer.Option(help="Share of false keeps among all keeps that is accepted; of a new ledger.")
    ] = 0.1,
    final: Annotated[
        bool, typer.Option("--final", help="Compare the winner with the first baseline on test, and close the ledger.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Discard the open try as it is, because it cannot be trained.")
    ] = False,
    json: Json = False,
) -> None:
    """Keep a try or discard it. With as many seeds as that needs, over a whole night of tries (docs/research.md).

    Exits with 0 for keep, 3 for discard, 4 if it cannot tell, 1 or 2 after a mistake.
    """
    from bukva.compare import judge as court
    from bukva.compare.ledger import read_ledger
    from bukva.report import judge as show

    ledger, names = read_ledger(), names or []
    if len(names) > 2:
        raise BukvaError(f"judge: {len(names)} names; give the baseline and a try, or a try.")
    if final:
        _final(ledger, as_json=json)
        return
    if give_up and not names:
        raise BukvaError("judge --give-up: name the try; `bukva judge` lists the tries.")
    if not names:
        show.print_ledger(_known(ledger), as_json=json)
        return
    if give_up:
        show.print_try(court.give_up(names[-1], _known(ledger)), _known(read_ledger()), as_json=json)
        raise typer.Exit(STATUS["discard"])
    say = show.say(quiet=json)
    if ledger is None:
        if len(names) == 1 and names[0] not in BASELINES:  # a try that is taken for the baseline trains eight seeds
            raise BukvaError(f"There is no ledger yet; begin one: `bukva judge BASELINE {names[0]}`.")
        ledger = court.begin(names[0], model, level, say)
    elif len(names) == 2 and names[0] != ledger.baseline.name:
        raise BukvaError(f"judge {names[0]}: the baseline of the ledger is {ledger.baseline.name}; give the try alone.")
    if names[-1] == ledger.first.name:
        court.complete_baseline(ledger, say)
        return
    judged = court.judge(names[-1], ledger, say)
    _keep_in_mlflow(judged)
    show.print_try(judged, read_ledger() or ledger, as_json=json)
    raise typer.Exit(STATUS[judged.verdict])


def _known(ledger: "Ledger | None") -> "Ledger":
    if ledger is None:
        raise BukvaError("There is no ledger yet; begin one: `bukva judge BASELINE TRY`.")
    return ledger


def _final(ledger: "Ledger | None", *, as_json: bool) -> None:
    from bukva.compare import judge as court
    from bukva.compare import records
    from bukva.report.comparison import print_comparisons
    from bukva.report.judge import print_wear

    comparison = court.finish(_known(ledger))
    print_comparisons([comparison], as_json=as_json)
    records.looks_at_test(comparison.a.result.about["text"]["test"], more=1)
    if not as_json:
        print_wear(_known(ledger))


def _keep_in_mlflow(judged: "Try") -> None:
    """Keep the verdict as a tag of MLflow's run of the try."""
    from bukva.tracking.journal import note, start_sync

    if note(judged.trained.name, {"bukva.judge": judged.verdict, "bukva.try": str(judged.number)}, {}):
        start_sync()
