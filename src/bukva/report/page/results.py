"""Build the headline numbers and five sections of the report page: verdict, losses, predictors, cost and lineage."""

from typing import Any

import numpy as np
import pandas as pd

from bukva.compare.comparison import compare
from bukva.compare.groups import stage_seconds
from bukva.compare.results import default_baseline, read_results
from bukva.compare.statistics.text import N_SEGMENTS, Units, over_text
from bukva.compare.statistics.wording import better_or_worse, signed
from bukva.config.load import flatten
from bukva.core.errors import BukvaError
from bukva.project.commands import settings
from bukva.project.lock import PARAMS, parse_yaml
from bukva.project.revisions import file_at, git, head, resolve
from bukva.project.stages import trained_models
from bukva.report import charts, comparison
from bukva.report.page.anatomy import leads, passage
from bukva.report.page.experiment import SPLIT, Card, Experiment, accuracy_card, uncertainty_card, work_label
from bukva.report.terminal import cells, headline, percent
from bukva.text.characters import code_points
from bukva.text.ids import bits

# number of characters of the sample next to the verdict, and of the passage that compares the predictors
SAMPLE_CHARS, PASSAGE = 300, 600
# column of a loss curve -> title of the x axis
AXES = {"step": "updates", "chars": "characters seen"}
LEADS = (-3, -1, 1, 3)  # limits of the colors of a character: bits by which learning beats counting
CLASSES = np.array(["counted2", "counted1", "", "learned1", "learned2"])  # CSS classes of the ranges between LEADS
# CSS class -> meaning, in the order of the legend
LEGEND = {
    "learned2": "learning was better by 3 bits or more",
    "learned1": "learning was better by 1 to 3 bits",
    "counted1": "counting was better by 1 to 3 bits",
    "counted2": "counting was better by 3 bits or more",
    "neither": "both were worse than chance",
}


def cards(experiment: Experiment) -> list[Card]:
    """Return the headline numbers of a result: score, accuracy, gain over n-gram counts, and training time."""
    own, counted = experiment.rows["gpt"].bits[SPLIT], experiment.rows[experiment.table["best_counted"]]
    low, high = _interval(experiment, "gpt")
    gain = own - counted.bits[SPLIT]
    seconds = stage_seconds(experiment.result, "gpt")
    parameters = experiment.scores.about["models"]["gpt"]["parameters"]
    interval = f"; 95 % interval {low:.3f} to {high:.3f}" if low < high else ""
    return [
        Card("Score", f"{own:.3f}", f"bits per character on {SPLIT}{interval}"),
        uncertainty_card(own),
        accuracy_card(experiment.scores.about, experiment.params.tokenize.kind),
        Card(
            "Against counting",
            signed(gain),
            f"bits compared with the best n-gram model ({counted.label})",
            next(word for word in ("better", "worse", "as good as") if word in better_or_worse(gain)),
        ),
        Card(
            "Training",
            "unknown" if seconds is None else f"{seconds:,.0f} s",
            f"for {experiment.curves['gpt']['step'].iloc[-1]:,} updates of {parameters:,} parameters",
        ),
    ]


def verdict(experiment: Experiment) -> dict[str, Any]:
    """Return the contents of the page section about the verdict.

    The section shows a headline, a sample, the scores of all models, and the comparison with the baseline.
    """
    splits = list(experiment.table["gpt"])
    answers = experiment.read("answers")
    of_gpt = {"model": trained_models()["gpt"].label, "state": "trained", "temperature": answers["temperature"]}
    sample = [answer for answer in answers["answers"] if of_gpt.items() <= answer.items()][-1]
    return {
        "headline": headline(experiment.table),
        "prompt": sample["read"].lstrip(),
        "written": sample["written"][:SAMPLE_CHARS],
        "header": ["model", *splits],
        "rows": [[row.label, *cells(row, splits)] for row in experiment.rows.values()],
        "chart": _scores(experiment),
        "baseline": _against_baseline(experiment),
    }


def _scores(experiment: Experiment) -> charts.Spec:
    """Draw the scores of all models and baselines, with 95 % intervals (see `_interval`)."""
    drawn = []
    for key, row in experiment.rows.items():
        low, high = _interval(experiment, key)
        label, own = f"{row.bits[SPLIT]:z.3f} {row.label}", row.bits[SPLIT]
        drawn.append({"label": label, "colour": experiment.colors[key], "bits": own, "low": low, "high": high})
    return charts.dots(pd.DataFrame(drawn), f"{charts.BITS} on {SPLIT}", f"Scores of {len(drawn)} models on {SPLIT}.")


def _interval(experiment: Experiment, key: str) -> tuple[float, float]:
    """Return the 95 % interval of a score on val, as (low, high).

    `key` is the key of the model or baseline in scores.json. Both ends are equal to the score if the text is too short
    for an interval, or if the scores of the individual characters were not stored.
    """
    scored, own = experiment.scores.chars[SPLIT], experiment.rows[key].bits[SPLIT]
    if scored.sum() < N_SEGMENTS or f"{key}/{SPLIT}.npy" not in experiment.scores.files:
        return own, own
    units = Units.of(scored)
    return over_text(units.sums(experiment.scores.nats(key, SPLIT)), units).interval


def _against_baseline(experiment: Experiment) -> dict[str, Any]:
    """Compare a result with the baseline on val.

    Return the `verdict` and the `sentences` that explain it. If the comparison is not possible, the only sentence is
    the reason. For the baseline itself, return {}.
    """
    name, baseline = experiment.result.revision.name, default_baseline()
    try:
        if read_results([resolve(baseline)])[0].lock == experiment.result.lock:
            return {}
        [compared] = compare([baseline, name], "gpt", SPLIT)
    except BukvaError as error:
        return {"verdict": "not compared", "sentences": [str(error)]}
    return {"verdict": compared.verdict.verdict, "sentences": comparison.sentences(compared)}


def losses(experiment: Experiment) -> dict[str, charts.Spec]:
    """Return two charts of the loss curves of all models.

    The keys are the titles of the x axes, "updates" and "characters seen".
    """
    of_models = [
        curve.assign(model=trained_models()[name].label, colour=experiment.colors[name])
        for name, curve in experiment.curves.items()
    ]
    names = {"chars_seen": "chars", "val_nats_per_char": "val", "train_nats_per_char": "train"}
    curves = pd.concat(of_models).rename(columns=names)
    points = curves.melt(["model", "colour", "step", "chars"], ["val", "train"], "split", "bits").dropna()
    points["bits"] = points["bits"].map(bits)
    return {title: charts.curves(points, x, title) for x, title in AXES.items()}


def cost(experiment: Experiment) -> dict[str, Any]:
    """Return the header and the rows of a table with the size and the training cost of each model."""
    rows = []
    for name, model in trained_models().items():
        last, seconds = experiment.curves[name].iloc[-1], stage_seconds(experiment.result, name)
        parameters = experiment.scores.about["models"][name]["parameters"]
        numbers = [parameters, last["step"], last["chars_seen"], seconds]
        rows.append([model.label, *("unknown" if number is None else f"{number:,.0f}" for number in numbers)])
    return {"header": ["model", "parameters", "updates", "characters seen", "seconds of training"], "rows": rows}


def lineage(experiment: Experiment) -> dict[str, Any]:
    """Describe how a result was created, and how to reproduce it.

    Return a sentence about the commit (`intro`), the `commands` that reproduce the result, and the parameters that
    differ from the commit (`changed`). Each of these parameters is a list [name, value, value in the commit].
    """
    revision, params = experiment.result.revision, experiment.result.params
    commit = revision.baseline or revision.commit or head()
    committed = parse_yaml(file_at(commit, PARAMS).decode())
    ours, theirs = flatten(params), flatten(committed)
    changes = ["diff", "--name-only", commit, revision.commit] if revision.commit else ["status", "--porcelain"]
    edited = git(*changes, "--", "src", "stages", "dvc.yaml", "numerics.lock")
    run = " ".join(["dvc exp run", *settings(committed, params)]) if ours != theirs else "make repro"
    return {
        "intro": f"Created from commit {commit or 'unknown'}, {'with' if edited else 'without'} changes to the code.",
        "commands": f"git checkout {commit}\n{run}",
        "changed": [[key, value, theirs.get(key)] for key, value in ours.items() if value != theirs.get(key)],
    }


def predictors(experiment: Experiment) -> dict[str, Any]:
    """Return the contents of the page section that compares counting with learning.

    On each scored character, the best n-gram model is compared with the neural network, which is the GPT without its
    n-grams. A sentence says how often each of the two was better. The colors of a passage of text show which of the two
    was better on each character.
    """
    scores, characters = experiment.scores, experiment.characters
    learned, counted = "network" if "network" in experiment.table else "gpt", experiment.table["best_counted"]
    labels = {name: experiment.rows[name].label for name in (counted, learned, "gpt")}
    model = "The GPT" if learned == "gpt" else "The GPT without its n-grams"
    lead = leads(scores.nats(counted, SPLIT), scores.nats(learned, SPLIT), experiment.read("cleaning")["symbols"])
    better, worse, below = (float(np.mean(each)) for each in (lead >= 0, lead < 0, np.isnan(lead)))
    shown = passage(characters.work, code_points(characters.text) == ord("\n"), PASSAGE)
    costs = pd.DataFrame({label: bits(1.0) * scores.nats(name, SPLIT)[shown] for name, label in labels.items()})
    notes = [", ".join(f"{label} {cost:.2f}" for label, cost in row.items()) for row in costs.to_dict("records")]
    classes = np.where(np.isnan(lead), "neither", CLASSES[np.digitize(lead, LEADS)])[shown].tolist()
    return {
        "intro": f"{model} gave {percent(better)} of the characters of {SPLIT} a higher probability than the best "
        f"n-gram model ({labels[counted]}). The n-gram model gave {percent(worse)} a higher probability. For the "
        f"remaining {percent(below)}, both were worse than chance.",
        "legend": LEGEND,
        "work": work_label(scores.works[int(characters.work[shown.start])].name),
        "parts": list(zip(characters.text[shown], classes, notes, strict=True)),
    }
