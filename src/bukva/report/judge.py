"""What `bukva judge` prints, and its chart."""

import json
from collections.abc import Callable
from dataclasses import asdict
from statistics import fmean

import pandas as pd

from bukva.compare.judge import wear
from bukva.compare.ledger import FILE, Ledger, Try
from bukva.compare.statistics.estimate import quantile
from bukva.report import charts
from bukva.report.terminal import show

WORDS = {
    "keep": "Keep {name}: better by {size}. It is the baseline now.",
    "discard": "Discard {name}: no gain worth more seeds ({size}).",
    "cannot tell": "Cannot tell: {name} may be better ({size}), and {seeds} seeds do not show it. The baseline stays.",
}


COLOURS = {"keep": charts.COLOURS["together"], "discard": charts.COLOURS["counted"], "cannot tell": "#3f8fd2"}


def say(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line at once, or nothing where the output is JSON."""
    return (lambda _: None) if quiet else lambda line: print(line, flush=True)


def interval(judged: Try) -> tuple[float, float]:
    """Return the 95 % interval of the difference."""
    margin = quantile(0.975, judged.df) * judged.se
    return judged.difference - margin, judged.difference + margin


def print_try(judged: Try, ledger: Ledger, *, as_json: bool) -> None:
    """Print the verdict on one try, and what the ledger has left."""
    if as_json:
        print(json.dumps(asdict(judged) | {"next_level": ledger.next_level}, ensure_ascii=False))
        return
    if not judged.trained.seeds:
        print(f"Discard {judged.trained.name}: it was given up.")
        return
    low, high = interval(judged)
    size = f"{abs(judged.difference):.3f} bits, {low:+.3f} to {high:+.3f}"
    if not judged.kept:
        size = f"{judged.difference:+.3f} bits, {low:+.3f} to {high:+.3f}"
    print(WORDS[judged.verdict].format(name=judged.trained.name, size=size, seeds=len(judged.trained.seeds)))
    kept = sum(each.kept for each in ledger.decided)
    print(f"Tries so far: {len(ledger.decided)}, kept {kept}; the next one is tested at level {ledger.next_level:.2g}.")


def print_ledger(ledger: Ledger, *, as_json: bool) -> None:
    """Print all tries."""
    if as_json:
        print(json.dumps(asdict(ledger), ensure_ascii=False))
        return
    header = "try", "name", "changed", "seeds", "bits", "95 % interval", "verdict"
    show(
        f"Tries; of those that are kept, at most {ledger.level:.0%} are false on average",
        header,
        map(_row, ledger.tries),
        justify="left",
    )
    print(sentence(ledger))
    print_wear(ledger)


def sentence(ledger: Ledger) -> str:
    """Say how many tries there were, what they cost, and how good the baseline is now."""
    kept = sum(each.kept for each in ledger.decided)
    return (
        f"Tries: {len(ledger.decided)}, kept {kept}; trainings {ledger.n_trainings} ({FILE}). The baseline is "
        f"{ledger.baseline.name} with {fmean(ledger.baseline.bits):.3f} bits on val; the first one had "
        f"{fmean(ledger.first.bits):.3f}."
    )


def _row(each: Try) -> list[str]:
    if not each.trained.seeds:
        return [str(each.number), each.trained.name, each.what, "", "", "", each.verdict or "open"]
    low, high = interval(each)
    numbers = [str(len(each.trained.seeds)), f"{each.difference:+.3f}", f"{low:+.3f} to {high:+.3f}"]
    return [str(each.number), each.trained.name, each.what, *numbers, each.verdict]


def print_wear(ledger: Ledger) -> None:
    """Print by how much val flatters the winner."""
    n = len(ledger.decided)
    print(f"Val has decided {n} times. It may flatter the winner by up to {wear(ledger):.3f} bits (docs/research.md).")


def chart(ledger: Ledger) -> charts.Spec:
    """Draw all tries that have a verdict: score, interval, and whether they were kept."""
    rows, steps = chart_rows(ledger)
    about = f"Scores of {len(rows)} tries on val with 95 % intervals, and of the baseline."
    return charts.tries(rows, steps, about)


def chart_rows(ledger: Ledger) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a row for each try with a verdict, and the bits of the baseline after each of them, from try 0 on."""
    rows, baseline = [], fmean(ledger.first.bits)
    steps = [{"number": 0, "bits": baseline}]
    for each in ledger.decided:
        if not each.trained.seeds:  # given up
            continue
        low, high = (baseline + bound for bound in interval(each))
        rows.append(
            {
                "number": each.number,
                "name": each.trained.name,
                "changed": each.what,
                "seeds": len(each.trained.seeds),
                "bits": baseline + each.difference,
                "low": low,
                "high": high,
                "verdict": each.verdict,
                "colour": COLOURS[each.verdict],
            }
        )
        baseline += each.difference if each.kept else 0.0
        steps.append({"number": each.number, "bits": baseline})
    return pd.DataFrame(rows), pd.DataFrame(steps)
