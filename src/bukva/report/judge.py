"""Print and draw the verdicts of `bukva judge`."""

import json
from dataclasses import asdict
from statistics import fmean

import pandas as pd

from bukva.compare.judge import FILE, Ledger, Try, selection_bias
from bukva.report import charts
from bukva.report.terminal import show

SENTENCES = {
    "keep": "Keep {name}: better by {size}. {name} is now the baseline.",
    "discard": "Discard {name}: no gain that would justify more seeds ({size}).",
    "cannot tell": "Cannot tell: {name} may be better ({size}), but {seeds} seeds do not show it. "
    "The baseline is unchanged.",
}
COLORS = {"keep": charts.COLORS["together"], "discard": charts.COLORS["counted"], "cannot tell": "#3f8fd2"}


def print_try(judged: Try, ledger: Ledger, *, as_json: bool) -> None:
    """Print the verdict on a try, the numbers of all tries and of kept tries, and the level for the next try."""
    name, seeds = judged.trained.name, len(judged.trained.seeds)
    if as_json:
        print(json.dumps(asdict(judged) | {"next_level": ledger.next_level}, ensure_ascii=False))
    elif not seeds:
        print(f"Discard {name}: this try was given up before it had a verdict.")
    else:
        low, high = judged.interval
        difference = f"{abs(judged.difference):.3f}" if judged.kept else f"{judged.difference:+.3f}"
        size = f"{difference} bits, 95 % interval {low:+.3f} to {high:+.3f}"
        print(SENTENCES[judged.verdict].format(name=name, size=size, seeds=seeds))
        print(f"Tries so far: {_kept(ledger)}. The significance level of the next try is {ledger.next_level:.2g}.")


def print_ledger(ledger: Ledger, *, as_json: bool) -> None:
    """Print all tries as a table with a summary below, or the ledger as JSON."""
    if as_json:
        print(json.dumps(asdict(ledger) | {"baseline": asdict(ledger.baseline)}, ensure_ascii=False))
        return
    header = "try", "name", "changed", "seeds", "bits", "95 %", "verdict"
    title = (
        "Tries, and their differences from the baseline with 95 % intervals (on average, at most "
        f"{ledger.level:.0%} of the decisions to keep a try are wrong)"
    )
    rows = []
    for each in ledger.tries:
        numbers = ["", "", ""]
        if each.trained.seeds:
            low, high = each.interval
            numbers = [str(len(each.trained.seeds)), f"{each.difference:+.3f}", f"±{(high - low) / 2:.3f}"]
        changed = each.change_summary.replace("src/bukva/", "")
        rows.append([str(each.number), each.trained.name, changed, *numbers, each.verdict or "open"])
    show(title, header, rows, [sentence(ledger), selection_bias_sentence(ledger)], justify="left")


def _kept(ledger: Ledger) -> str:
    return f"{len(ledger.decided)}, kept: {sum(each.kept for each in ledger.decided)}"


def sentence(ledger: Ledger) -> str:
    """Return sentences with the numbers of tries and trainings, and the scores of the current and first baselines."""
    return (
        f"Tries: {_kept(ledger)}, trainings: {ledger.n_trainings} ({FILE}). The baseline is now "
        f"{ledger.baseline.name} with {fmean(ledger.baseline.bits):.3f} bits on val. The first baseline had "
        f"{fmean(ledger.first.bits):.3f} bits."
    )


def selection_bias_sentence(ledger: Ledger) -> str:
    """Return a sentence with an upper bound on the luck in the score of the last kept try on val."""
    return (
        "Tries are kept or discarded by their scores on val. By this selection alone, the score of the last kept try "
        f"on val may be too good by up to {selection_bias(ledger):.3f} bits (docs/research.md)."
    )


def chart_rows(ledger: Ledger) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables that `charts.tries` draws: a row per try with a score, and the baseline after each of them."""
    rows, steps = [], [{"number": 0, "bits": fmean(ledger.first.bits)}]
    for each in ledger.scored:
        bits = fmean(each.trained.bits)
        low, high = (bits - each.difference + bound for bound in each.interval)
        about = {"number": each.number, "name": each.trained.name, "changed": each.change_summary}
        scores = {"seeds": len(each.trained.seeds), "bits": bits, "low": low, "high": high}
        rows.append({**about, **scores, "verdict": each.verdict, "colour": COLORS[each.verdict]})
        steps.append({"number": each.number, "bits": bits if each.kept else steps[-1]["bits"]})
    return pd.DataFrame(rows), pd.DataFrame(steps)
