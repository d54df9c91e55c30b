"""The sections of the report page about results: verdict, losses, cost, lineage."""

from typing import Any

import numpy as np
import pandas as pd

from bukva.base.dotted import flatten
from bukva.base.errors import BukvaError
from bukva.base.units import bits
from bukva.experiments.commands import settings
from bukva.experiments.comparison import compare
from bukva.experiments.cost import seconds_by_step, stage_seconds
from bukva.experiments.git import commits_of, git, read_blobs
from bukva.experiments.lock import PARAMS
from bukva.experiments.results import parse_params
from bukva.experiments.revisions import WORKSPACE
from bukva.pipeline.stages import trained_models
from bukva.report import comparison, terminal
from bukva.report.figures import MEANINGS
from bukva.report.page import charts
from bukva.report.page.experiment import Experiment
from bukva.statistics.text import over_text
from bukva.statistics.units import N_SEGMENTS, Units

BASELINE = "HEAD"
NUMBER = "{:,.0f}".format


def verdict(experiment: Experiment) -> dict[str, Any]:
    """The sentences, the table of scores, and the comparison with the commit."""
    split = experiment.held_out
    splits = list(experiment.table["gpt"])
    return {
        "sentences": [
            terminal.verdict(experiment.table),
            *terminal.best_baseline(experiment.table),
            *terminal.against_counting(experiment.table, experiment.scores),
        ],
        "caption": f"Bits per character on {split}, fewer are better; lines are 95 % intervals over the text. "
        + " ".join(
            f"{kind.capitalize()}: {meaning.removeprefix(kind).strip(', ')}." for kind, meaning in MEANINGS.items()
        ),
        "header": ["model", *splits],
        "rows": [
            [row.label, *(f"{row.bits[name]:.3f}" if name in row.bits else "" for name in splits)]
            for row in experiment.rows
        ],
        "baseline": against_baseline(),
    }


def against_baseline() -> dict[str, Any]:
    """The verdict on val against the last commit, so that test is not looked at again; or why there is none."""
    name = f"the last commit ({_commit()[:7]})"
    try:
        [found] = compare([BASELINE, WORKSPACE], "gpt", "val")
    except BukvaError as error:
        return {"name": name, "sentences": [f"Not compared. {error}"]}
    return {"name": name, "sentences": comparison.sentences(found)}


def scores_chart(experiment: Experiment) -> charts.Spec:
    """All rows on one axis, with intervals where every character has a score."""
    split = experiment.held_out
    units = Units.of(experiment.scores.chars[split]) if experiment.scores.chars[split].sum() >= N_SEGMENTS else None
    drawn = []
    for row in experiment.rows:
        low = high = None
        if units and row.key in experiment.scores.models:
            low, high = over_text(units.sums(experiment.scores.nats(row.key, split)), units).interval
        colour = experiment.colours[row.key]
        drawn.append({"label": row.label, "colour": colour, "bits": row.bits[split], "low": low, "high": high})
    return charts.scores(pd.DataFrame(drawn), split)


def curves(experiment: Experiment) -> tuple[dict[str, Any], dict[str, charts.Spec]]:
    """The losses against steps, characters and, where a journal has them, seconds; linear and logarithmic."""
    points = _points(experiment)
    axes = {"step": "updates", "chars": "characters seen"}
    if points["seconds"].notna().any():
        axes["seconds"] = "seconds"
    choices, specs = charts.curve_choices(points, axes)
    caption = (
        "Solid: val as one stream; dashed: the batches of train. The score above is by the window rule and with the "
        "best weights. Seconds are those of the training stage on the machine that ran it."
    )
    return {"choices": choices, "caption": caption}, specs


def _points(experiment: Experiment) -> pd.DataFrame:
    """One row for each model, split and scored step."""
    parts = []
    for name, curve in experiment.curves.items():
        seconds = seconds_by_step(experiment.result, name)
        for split in ("val", "train"):
            scored = curve.dropna(subset=f"{split}_nats_per_char")
            parts.append(
                pd.DataFrame(
                    {
                        "model": trained_models()[name].label,
                        "colour": experiment.colours[name],
                        "split": split,
                        "step": scored["step"],
                        "chars": scored["chars_seen"],
                        "seconds": scored["step"].map(seconds),
                        "bits": scored[f"{split}_nats_per_char"].map(bits),
                    }
                )
            )
    return pd.concat(parts).astype({"seconds": np.float64})


def cost(experiment: Experiment) -> dict[str, Any]:
    """What each model took."""
    rows = []
    for name, model in trained_models().items():
        last, seconds = experiment.curves[name].iloc[-1], stage_seconds(experiment.result, name)
        took = "unknown" if seconds is None else NUMBER(seconds)
        parameters = experiment.scores.about["models"][name]["parameters"]
        rows.append([model.label, NUMBER(parameters), NUMBER(last["step"]), NUMBER(last["chars_seen"]), took])
    return {"header": ["model", "parameters", "updates", "characters seen", "seconds of training"], "rows": rows}


def lineage(experiment: Experiment) -> dict[str, Any]:
    """The commit, what differs from it, and how to make the same again."""
    commit, params = _commit(), experiment.result.params
    committed = parse_params(read_blobs([(commit, PARAMS)]).get((commit, PARAMS), b"").decode())
    ours, theirs = flatten(params), flatten(committed)
    edited = git("status", "--porcelain", "--", "src", "stages", "dvc.yaml", "numerics.lock")
    run = " ".join(["dvc exp run", *settings(committed, params)]) if ours != theirs else "make repro"
    return {
        "intro": f"Made from commit {commit}, {'and code that is not committed' if edited else 'as it is'}.",
        "commands": f"git checkout {commit}\n{run}",
        "changed": [[key, value, theirs.get(key)] for key, value in ours.items() if value != theirs.get(key)],
    }


def _commit() -> str:
    """The commit of the checkout; "unknown" before the first one."""
    return commits_of([BASELINE])[BASELINE] or "unknown"
