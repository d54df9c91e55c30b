"""The sections of the report page about results: verdict, losses, cost, lineage, and who predicted what."""

from typing import Any

import numpy as np
import pandas as pd

from bukva.compare.comparison import compare
from bukva.compare.cost import seconds_by_step, stage_seconds
from bukva.compare.statistics.text import N_SEGMENTS, Units, over_text
from bukva.config.load import flatten
from bukva.core.errors import BukvaError
from bukva.evaluation.rows import Kind
from bukva.interpret.characters import Characters, leads, passage
from bukva.project.commands import settings
from bukva.project.lock import PARAMS, parse_yaml
from bukva.project.revisions import commit_of, git, show
from bukva.project.stages import trained_models
from bukva.report import charts, comparison
from bukva.report.page.experiment import SPLIT, Experiment, work_label
from bukva.report.terminal import headline
from bukva.text.ids import bits

BASELINE = "HEAD"
SAMPLE_CHARS = 300
NUMBER = "{:,.0f}".format
MEANINGS: dict[Kind, str] = {
    "counted": "counted on train",
    "compressor": "compressor, learns on from the text it is scored on",
    "learned": "learned by gradients",
    "together": "counted and learned together",
}


def verdict(experiment: Experiment) -> dict[str, Any]:
    """What a stranger should know first, a sample, the table of scores, and the comparison with the commit."""
    splits = list(experiment.table["gpt"])
    return {
        "headline": headline(experiment.table),
        "sample": _sample(experiment),
        "caption": f"Bits per character on {SPLIT}, fewer are better; lines are 95 % intervals over the text. "
        + " ".join(
            f"{kind.capitalize()}: {meaning.removeprefix(kind).strip(', ')}." for kind, meaning in MEANINGS.items()
        ),
        "header": ["model", *splits],
        "rows": [
            [row.label, *(f"{row.bits[name]:.3f}" if name in row.bits else "" for name in splits)]
            for row in experiment.rows
        ],
        "baseline": _against_baseline(experiment),
    }


def _sample(experiment: Experiment) -> dict[str, str]:
    """The beginning of what the trained GPT wrote after the last prompt, at the temperature of params.yaml."""
    answers = experiment.answers
    wanted = trained_models()["gpt"].label, "trained", answers["temperature"]
    *_, one = (each for each in answers["answers"] if (each["model"], each["state"], each["temperature"]) == wanted)
    written = one["written"]
    return {
        "prompt": one["read"].lstrip(),
        "written": written[:SAMPLE_CHARS] + (" …" if len(written) > SAMPLE_CHARS else ""),
    }


def _against_baseline(experiment: Experiment) -> dict[str, Any]:
    """The verdict on val against the last commit, or why there is none; no sentences for that commit itself."""
    ours, commit = experiment.result.revision, _commit(BASELINE)
    name = f"the last commit ({commit[:7]})"
    if ours.commit == commit:
        return {"name": name, "sentences": []}
    try:
        [found] = compare([BASELINE, ours.name], "gpt", SPLIT)
    except BukvaError as error:
        return {"name": name, "sentences": [f"Not compared. {error}"]}
    return {"name": name, "sentences": comparison.sentences(found)}


def scores_chart(experiment: Experiment) -> charts.Spec:
    """All rows on one axis, with intervals where every character has a score."""
    scored = experiment.scores.chars[SPLIT]
    units = Units.of(scored) if scored.sum() >= N_SEGMENTS else None
    drawn = []
    for row in experiment.rows:
        low = high = None
        if units and row.key in experiment.scores.models:
            low, high = over_text(units.sums(experiment.scores.nats(row.key, SPLIT)), units).interval
        colour = experiment.colours[row.key]
        drawn.append({"label": row.label, "colour": colour, "bits": row.bits[SPLIT], "low": low, "high": high})
    return charts.scores(pd.DataFrame(drawn), SPLIT)


def curves(experiment: Experiment) -> tuple[dict[str, Any], dict[str, charts.Spec]]:
    """The losses against steps, characters and, where a journal has them, seconds."""
    points = _points(experiment)
    axes = {"step": "updates", "chars": "characters seen"}
    if points["seconds"].notna().any():
        axes["seconds"] = "seconds"
    choices, specs = charts.curve_choices(points, axes)
    caption = (
        "Solid: val, scored as one stream, so that it is a little higher than the score above, which is by the window "
        "rule and with the best weights; dashed: the batches of train. Zoomed: to what follows the first third of the "
        "updates."
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
    revision, params = experiment.result.revision, experiment.result.params
    commit = revision.baseline or revision.commit or _commit(BASELINE)
    committed = parse_yaml(show(commit, PARAMS).decode())
    ours, theirs = flatten(params), flatten(committed)
    changes = ["diff", "--name-only", commit, revision.commit] if revision.commit else ["status", "--porcelain"]
    edited = git(*changes, "--", "src", "stages", "dvc.yaml", "numerics.lock")
    run = " ".join(["dvc exp run", *settings(committed, params)]) if ours != theirs else "make repro"
    return {
        "intro": f"Made from commit {commit}, {'with changes in the code' if edited else 'as it is'}.",
        "commands": f"git checkout {commit}\n{run}",
        "changed": [[key, value, theirs.get(key)] for key, value in ours.items() if value != theirs.get(key)],
    }


def _commit(name: str) -> str:
    """The commit of a name; "unknown" for HEAD before the first one."""
    return commit_of(name) or "unknown"


# ---- who predicted what: counting, or learning


LEADS = (1.0, 3.0)  # bits from which a character has the next colour
LEGEND = [
    ("learned2", f"learned, by {LEADS[1]:.0f} bits or more"),
    ("learned1", f"by {LEADS[0]:.0f}"),
    ("counted1", f"counted, by {LEADS[0]:.0f}"),
    ("counted2", f"by {LEADS[1]:.0f} or more"),
    ("neither", "neither: both below chance"),
]


def predictors(experiment: Experiment, characters: Characters) -> dict[str, Any]:
    """The shares of characters, and a passage in which each has the colour of its better predictor."""
    labels = experiment.labels
    learned = "network" if "network" in experiment.table else "gpt"
    who = "The GPT" if learned == "gpt" else "The GPT without its n-grams"
    counted = experiment.table["best_counted"]
    names = list(dict.fromkeys([counted, learned, "gpt"]))
    nats = {name: experiment.scores.nats(name, SPLIT) for name in names}
    n_symbols = experiment.cleaning["symbols"]
    found = leads(nats[counted], nats[learned], n_symbols)
    shown = passage(characters)
    own = {name: np.asarray(nats[name][shown]) for name in names}
    numbers = zip(*(bits(1.0) * own[name] for name in names), strict=True)
    return {
        "intro": f"{who} gave more probability to {100 * np.mean(found >= 0):.0f} % of the characters of {SPLIT}, and "
        f"{labels[counted]} to {100 * np.mean(found < 0):.0f} %; both gave {100 * np.isnan(found).mean():.1f} % of "
        "them less than chance.",
        "legend": LEGEND,
        "work": work_label(experiment.scores.works[int(characters.work[shown.start])].name),
        "parts": [
            (char, name, ", ".join(f"{labels[key]} {value:.2f}" for key, value in zip(names, values, strict=True)))
            for char, name, values in zip(
                characters.text(shown.start, shown.stop), map(_class, found[shown].tolist()), numbers, strict=True
            )
        ],
    }


def _class(lead: float) -> str:
    """The name of a character's colour; "" where both are alike."""
    level = int(np.searchsorted(LEADS, abs(lead), side="right"))
    if np.isnan(lead):
        return "neither"
    return f"{'learned' if lead > 0 else 'counted'}{level}" if level else ""
