"""Prepare the label and the scores of each model and baseline for the table and the chart of scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bukva.project.stages import TrainedModel
from bukva.scoring.metrics import METRICS, metrics_in

Kind = Literal["counted", "compressor", "learned", "together"]
COUNTED = {"unigram": "by frequency", "bigram_exact": "bigram, counted"}  # name of a baseline in scores.json -> label
NGRAM = "ngram_"  # start of the name of an n-gram baseline; the order follows


@dataclass(frozen=True)
class Row:
    """Scores of one model or baseline."""

    key: str  # key of the scores in scores.json, such as "gpt" or "ngram_6"
    kind: Kind  # "learned" is a trained model without n-grams, and "together" a GPT with its n-grams
    label: str  # name that is shown to readers
    bits: dict[str, float]  # bits per character, by name of the split
    metrics: Mapping[str, float]  # scores of METRICS on val, by name


def rows_of(scores: dict[str, Any], models: dict[str, TrainedModel]) -> list[Row]:
    """Return a row for each score in `scores`, the content of scores.json: first the baselines, then the models."""
    baselines, unit, rows = scores["baselines"], scores["window"]["unit"], list[Row]()
    for key in baselines["val"]:
        bits = {split: baselines[split][key] for split in scores["gpt"] if key in baselines[split]}
        counted = {name: scores.get(f"counted_{name}", {}) for name in METRICS}
        metrics = {name: of_name[key] for name, of_name in counted.items() if key in of_name}
        label = _counted_label(key, unit)
        rows.append(Row(key, "counted" if label else "compressor", label or key, bits, metrics))
    labels = {name: f"{model.label}, learned" for name, model in models.items()}
    has_ngrams, gpt = "network" in scores, models["gpt"].label
    if has_ngrams:
        del labels["gpt"]
        labels |= {"network": f"{gpt} without its n-grams", "gpt": f"{gpt} with its n-grams"}
    for name, label in labels.items():
        bits = {split: score["bits_per_char"] for split, score in scores[name].items()}
        kind: Kind = "together" if has_ngrams and name == "gpt" else "learned"
        rows.append(Row(name, kind, label, bits, metrics_in(scores[name]["val"])))
    return rows


def chart_of(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the data of the chart that `dvc plots` draws, which only has val: looks at test are counted."""
    return [{"model": row.label, "bits_per_char": row.bits["val"]} for row in rows]


def _counted_label(key: str, unit: str) -> str:
    """Return the label of a counted baseline, or "" for a compressor."""
    if key.startswith(NGRAM):
        return f"n-grams of order {key.removeprefix(NGRAM)}"
    return f"every {unit} equally likely" if key == "uniform" else COUNTED.get(key, "")
