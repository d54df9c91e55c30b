"""Prepare the label and the scores of each model and baseline for the table and the chart of scores."""

from dataclasses import dataclass
from typing import Any, Literal

from bukva.project.stages import TrainedModel

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
    # fraction of the characters of val for which the most likely prediction is right; None if it was not computed
    accuracy: float | None = None


def rows_of(scores: dict[str, Any], models: dict[str, TrainedModel]) -> list[Row]:
    """Return a row for each score in `scores`, the content of scores.json: first the baselines, then the models."""
    baselines, unit, accuracy = scores["baselines"], scores["window"]["unit"], scores.get("counted_accuracy", {})
    rows = []
    for key in baselines["val"]:
        bits = {split: baselines[split][key] for split in scores["gpt"] if key in baselines[split]}
        label = _counted_label(key, unit)
        rows.append(Row(key, "counted" if label else "compressor", label or key, bits, accuracy.get(key)))
    labels = {name: f"{model.label}, learned" for name, model in models.items()}
    has_ngrams, gpt = "network" in scores, models["gpt"].label
    if has_ngrams:
        del labels["gpt"]
        labels |= {"network": f"{gpt} without its n-grams", "gpt": f"{gpt} with its n-grams"}
    for name, label in labels.items():
        bits = {split: score["bits_per_char"] for split, score in scores[name].items()}
        kind: Kind = "together" if has_ngrams and name == "gpt" else "learned"
        rows.append(Row(name, kind, label, bits, scores[name]["val"].get("accuracy")))
    return rows


def chart_of(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the data of the chart that `dvc plots` draws, which only has val: looks at test are counted."""
    return [{"model": row.label, "bits_per_char": row.bits["val"]} for row in rows]


def _counted_label(key: str, unit: str) -> str:
    """Return the label of a counted baseline, or "" for a compressor."""
    if key.startswith(NGRAM):
        return f"n-grams of order {key.removeprefix(NGRAM)}"
    return f"every {unit} equally likely" if key == "uniform" else COUNTED.get(key, "")
