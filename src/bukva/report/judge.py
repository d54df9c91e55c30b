"""Print and draw the verdicts of `bukva judge` on tries. A try is a changed setting that may replace the baseline."""

import json
from collections.abc import Callable
from dataclasses import asdict
from statistics import fmean

import pandas as pd

from bukva.compare.judge import selection_bias
from bukva.compare.ledger import FILE, Ledger, Try
from bukva.compare.statistics.estimate import quantile
from bukva.report import charts
from bukva.report.terminal import show

SENTENCES = {
    "keep": "Keep {name}: better by {size}. {name} is now the baseline.",
    "discard": "Discard {name}: no gain that would justify more seeds ({size}).",
    "cannot tell": "Cannot tell: {name} may be better ({size}), but {seeds} seeds do not show it. "
    "The baseline is unchanged.",
}
COLORS = {"keep": charts.COLORS["together"], "discard": charts.COLORS["counted"], "cannot tell": "#3f8fd2"}


def line_printer(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line immediately, without buffering.

    With `quiet`, which JSON output needs, the function prints nothing.
    """
    return (lambda _: None) if quiet else lambda line: print(line, flush=True)


def interval(judged: Try) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the try's difference from the baseline, in bits per character."""
    margin = quantile(0.975, judged.df) * judged.se
    return judged.difference - margin, judged.difference + margin


def print_try(judged: Try, ledger: Ledger, *, as_json: bool) -> None:
    """Print the verdict on a try, the number of tries in the ledger, and the significance level of the next try.

    With `as_json`, print all values of the try and `next_level` as JSON.
    """
    if as_json:
        print(json.dumps(asdict(judged) | {"next_level": ledger.next_level}, ensure_ascii=False))
        return
    if not judged.trained.seeds:
        print(f"Discard {judged.trained.name}: the try was given up before it had a score.")
        return
    low, high = interval(judged)
    size = f"{abs(judged.difference):.3f} bits, 95 % interval {low:+.3f} to {high:+.3f}"
    if not judged.kept:
        size = f"{judged.difference:+.3f} bits, 95 % interval {low:+.3f} to {high:+.3f}"
    print(SENTENCES[judged.verdict].format(name=judged.trained.name, size=size, seeds=len(judged.trained.seeds)))
    kept = sum(each.kept for each in ledger.decided)
    print(
        f"Tries so far: {len(ledger.decided)}, kept: {kept}. "
        f"The significance level of the next try is {ledger.next_level:.2g}."
    )


def print_ledger(ledger: Ledger, *, as_json: bool) -> None:
    """Print all tries of a ledger as a table, and a summary below the table."""
    if as_json:
        print(json.dumps(asdict(ledger), ensure_ascii=False))
        return
    header = "try", "name", "changed", "seeds", "difference", "95 % interval", "verdict"
    show(
        f"Tries (on average, at most {ledger.level:.0%} of the decisions to keep a try are wrong)",
        header,
        map(_row, ledger.tries),
        justify="left",
    )
    print(sentence(ledger))
    print_selection_bias(ledger)


def sentence(ledger: Ledger) -> str:
    """Summarize a ledger: the numbers of tries and trainings, and the scores of the current and the first baseline."""
    kept = sum(each.kept for each in ledger.decided)
    return (
        f"Tries: {len(ledger.decided)}, kept: {kept}, trainings: {ledger.n_trainings} ({FILE}). The baseline is now "
        f"{ledger.baseline.name} with {fmean(ledger.baseline.bits):.3f} bits on val; the first baseline had "
        f"{fmean(ledger.first.bits):.3f}."
    )


def _row(each: Try) -> list[str]:
    if not each.trained.seeds:
        return [str(each.number), each.trained.name, each.change_summary, "", "", "", each.verdict or "open"]
    low, high = interval(each)
    numbers = [str(len(each.trained.seeds)), f"{each.difference:+.3f}", f"{low:+.3f} to {high:+.3f}"]
    return [str(each.number), each.trained.name, each.change_summary, *numbers, each.verdict]


def print_selection_bias(ledger: Ledger) -> None:
    """Print how much too good the winner's score on val may be, because tries were kept or discarded by this score."""
    print(
        f"{len(ledger.decided)} tries were kept or discarded by their scores on val. This selection alone can make the "
        f"winner's score on val too good by as much as {selection_bias(ledger):.3f} bits (docs/research.md)."
    )


def chart(ledger: Ledger) -> charts.Spec:
    """Draw the score and 95 % interval of each try that has a verdict, and the score of the baseline over time."""
    rows, steps = chart_rows(ledger)
    description = f"Scores of {len(rows)} tries on val with 95 % intervals, and of the baseline."
    return charts.tries(rows, steps, description)


def chart_rows(ledger: Ledger) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the two tables that `charts.tries` draws: the tries, and the score of the baseline after each try.

    Tries without a verdict or a score are left out. The row with number 0 in the second table is the first baseline.
    """
    rows = []
    steps = [{"number": 0, "bits": fmean(ledger.first.bits)}]
    for each in ledger.decided:
        if not each.trained.seeds:  # the try was given up before it had a score
            continue
        bits = fmean(each.trained.bits)
        low, high = (bits - each.difference + bound for bound in interval(each))
        rows.append(
            {
                "number": each.number,
                "name": each.trained.name,
                "changed": each.change_summary,
                "seeds": len(each.trained.seeds),
                "bits": bits,
                "low": low,
                "high": high,
                "verdict": each.verdict,
                "colour": COLORS[each.verdict],
            }
        )
        if each.kept:  # the last kept try has been trained with more seeds after its verdict
            bits = fmean(ledger.baseline.bits if each.trained.key == ledger.baseline.key else each.trained.bits)
        else:
            bits = steps[-1]["bits"]
        steps.append({"number": each.number, "bits": bits})
    return pd.DataFrame(rows), pd.DataFrame(steps)
