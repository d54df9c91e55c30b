"""Build the headline numbers of the report page, and the sections verdict, losses, predictors, and cost and lineage."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.compare.comparison import compare
from bukva.compare.groups import stage_seconds
from bukva.compare.results import default_baseline, read_results
from bukva.compare.statistics.text import N_SEGMENTS, Units, over_text
from bukva.compare.statistics.wording import better_or_worse, signed
from bukva.core.errors import BukvaError
from bukva.core.params import flatten
from bukva.project.commands import settings
from bukva.project.lock import PARAMS, parse_yaml
from bukva.project.revisions import file_at, git, head, resolve
from bukva.project.stages import trained_models
from bukva.report import charts, comparison
from bukva.report.page.experiment import SPLIT, Characters, Experiment, work_label
from bukva.report.terminal import cells, headline, percent
from bukva.text.ids import Nats, bits

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


@dataclass(frozen=True)
class Card:
    """A headline number: its name, its value, a short explanation, and an optional verdict."""

    name: str
    value: str
    meaning: str
    verdict: str = ""


def uncertainty_card(bits: float) -> Card:
    """Explain a score in bits per character as a guess among equally likely characters."""
    return Card("As uncertain as", f"1 in {2**bits:.1f}", "a guess among this many equally likely characters")


def accuracy_cards(accuracy: float | None) -> list[Card]:
    """Return a card with the accuracy of the GPT, if it was computed."""
    meaning = f"of the characters of {SPLIT} are the GPT's likeliest guess"
    return [] if accuracy is None else [Card("Accuracy", percent(accuracy), meaning)]


def cards(experiment: Experiment) -> list[Card]:
    """Return the headline numbers of a result."""
    gpt, counted = experiment.rows["gpt"], experiment.rows[experiment.table["best_counted"]]
    low, high = _interval(experiment, "gpt")
    gain = gpt.bits[SPLIT] - counted.bits[SPLIT]
    seconds = stage_seconds(experiment.result, "gpt")
    interval = f"; 95 % interval {low:.3f} to {high:.3f}" if low < high else ""
    return [
        Card("Score", f"{gpt.bits[SPLIT]:.3f}", f"bits per character on {SPLIT}{interval}"),
        uncertainty_card(gpt.bits[SPLIT]),
        *accuracy_cards(gpt.accuracy),
        Card(
            "Against counting",
            signed(gain),
            f"bits compared with the best n-gram model ({counted.label})",
            next(word for word in ("better", "worse", "as good as") if word in better_or_worse(gain)),
        ),
        Card(
            "Training",
            "unknown" if seconds is None else f"{seconds:,.0f} s",
            f"for {experiment.curves['gpt']['step'].iloc[-1]:,} updates of {_parameters(experiment, 'gpt')} parameters",
        ),
    ]


def _parameters(experiment: Experiment, model: str) -> str:
    return f"{experiment.scores.about['models'][model]['parameters']:,}"


def verdict(experiment: Experiment) -> dict[str, Any]:
    """Return a headline, a sample, the scores of all models, and the comparison with the baseline."""
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
    """Draw the scores of all models and baselines with 95 % intervals."""
    drawn = []
    for key, row in experiment.rows.items():
        low, high = _interval(experiment, key)
        label, own = f"{row.bits[SPLIT]:z.3f} {row.label}", row.bits[SPLIT]
        drawn.append({"label": label, "colour": experiment.colors[key], "bits": own, "low": low, "high": high})
    return charts.dots(pd.DataFrame(drawn), f"{charts.BITS} on {SPLIT}", f"Scores of {len(drawn)} models on {SPLIT}.")


def _interval(experiment: Experiment, key: str) -> tuple[float, float]:
    """Return the 95 % interval of a score. It is empty if the text is too short, or has no score per character."""
    scored, own = experiment.scores.chars[SPLIT], experiment.rows[key].bits[SPLIT]
    if scored.sum() < N_SEGMENTS or f"{key}/{SPLIT}.npy" not in experiment.scores.files:
        return own, own
    units = Units.of(scored)
    return over_text(units.sums(experiment.scores.nats(key, SPLIT)), units).interval


def _against_baseline(experiment: Experiment) -> dict[str, Any]:
    name, baseline = experiment.result.revision.name, default_baseline()
    try:
        if read_results([resolve(baseline)])[0].lock == experiment.result.lock:
            return {}
        [compared] = compare([baseline, name], "gpt", SPLIT)
    except BukvaError as error:
        return {"verdict": "not compared", "sentences": [str(error)]}
    return {"verdict": compared.verdict.verdict, "sentences": comparison.sentences(compared)}


def losses(experiment: Experiment) -> dict[str, charts.Spec]:
    """Return the chart of the loss curves of all models for each of AXES."""
    of_models = [
        curve.assign(model=trained_models()[name].label, colour=experiment.colors[name])
        for name, curve in experiment.curves.items()
    ]
    names = {"chars_seen": "chars", "val_nats_per_char": "val", "train_nats_per_char": "train"}
    curves = pd.concat(of_models).rename(columns=names)
    points = curves.melt(["model", "colour", "step", "chars"], ["val", "train"], "split", "bits").dropna()
    points["bits"] = points["bits"].map(bits)
    return {title: charts.curves(points, x, title) for x, title in AXES.items()}


def predictors(experiment: Experiment) -> dict[str, Any]:
    """Compare the best n-gram model with the network, which is the GPT without its n-grams, on each character.

    The colors of a passage of text show which of the two was better.
    """
    scores, characters = experiment.scores, experiment.characters
    learned, counted = "network" if "network" in experiment.table else "gpt", experiment.table["best_counted"]
    labels = {name: experiment.rows[name].label for name in (counted, learned, "gpt")}
    model = "The GPT" if learned == "gpt" else "The GPT without its n-grams"
    lead = leads(scores.nats(counted, SPLIT), scores.nats(learned, SPLIT), experiment.read("cleaning")["symbols"])
    better, worse, below = (float(np.mean(each)) for each in (lead >= 0, lead < 0, np.isnan(lead)))
    shown = passage(characters, PASSAGE)
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


def leads(counted: Nats, learned: Nats, n_symbols: int) -> npt.NDArray[np.float64]:
    """Return by how many bits a network (losses `learned`) beats n-grams (losses `counted`) on each character.

    The lead is NaN where both are worse than a uniform guess among `n_symbols` characters.
    """
    lead = bits(1.0) * (counted.astype(np.float64) - learned)
    lead[np.minimum(counted, learned) > np.log(n_symbols)] = np.nan
    return lead


def passage(characters: Characters, length: int) -> slice:
    """Choose at most `length` characters of the longest work, after its first line if its first half has a line end."""
    _, starts, lengths = np.unique(characters.work, return_index=True, return_counts=True)
    start, n = int(starts[lengths.argmax()]), int(lengths.max())
    first = characters.text.find("\n", start, start + n // 2) + 1 or start
    return slice(first, min(first + length, start + n))


def lineage(experiment: Experiment) -> dict[str, Any]:
    """Return a table with the cost of each training, the commit, and the parameters that differ from the commit.

    `commands` reproduce the result.
    """
    revision, params = experiment.result.revision, experiment.result.params
    commit = revision.baseline or revision.commit or head()
    committed = parse_yaml(file_at(commit, PARAMS).decode())
    ours, theirs = flatten(params), flatten(committed)
    changes = ["diff", "--name-only", commit, revision.commit] if revision.commit else ["status", "--porcelain"]
    edited = git(*changes, "--", "src", "stages", "dvc.yaml", "numerics.lock")
    run = " ".join(["dvc exp run", *settings(committed, params)]) if ours != theirs else "make repro"
    return {
        "rows": [
            *([f"training of the {model.label}", _cost(experiment, name)] for name, model in trained_models().items()),
            ["commit", f"{commit or 'unknown'}, {'with' if edited else 'without'} changes to the code"],
            *(
                [key, f"{value} (in the commit: {theirs.get(key)})"]
                for key, value in ours.items()
                if value != theirs.get(key)
            ),
        ],
        "commands": f"git checkout {commit}\n{run}",
    }


def _cost(experiment: Experiment, model: str) -> str:
    last, seconds = experiment.curves[model].iloc[-1], stage_seconds(experiment.result, model)
    time = "unknown time" if seconds is None else f"{seconds:,.0f} s"
    return (
        f"{_parameters(experiment, model)} parameters, {last['step']:,.0f} updates, {last['chars_seen']:,.0f} "
        f"characters seen, {time}"
    )
