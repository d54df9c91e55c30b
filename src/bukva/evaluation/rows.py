"""Prepare the label and the scores of each model and baseline for the table and the chart of scores."""

from dataclasses import dataclass
from typing import Any, Literal

from bukva.project.stages import TrainedModel

Kind = Literal["counted", "compressor", "learned", "together"]
COUNTED = {  # name of a baseline in scores.json -> label
    "unigram": "by frequency",
    "bigram_exact": "bigram, counted",
}
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
    baselines, splits, unit = scores["baselines"], list(scores["gpt"]), scores["window"]["unit"]
    counted_accuracy = scores.get("counted_accuracy", {})
    rows = []
    for key in baselines["val"]:
        bits = {split: baselines[split][key] for split in splits if key in baselines[split]}
        is_counted = key == "uniform" or key in COUNTED or key.startswith(NGRAM)
        kind: Kind = "counted" if is_counted else "compressor"
        label = _counted_label(key, unit) if is_counted else key
        rows.append(Row(key, kind, label, bits, counted_accuracy.get(key)))
    has_ngrams = "network" in scores
    for name, model in models.items():
        if name != "gpt" or not has_ngrams:
            rows.append(Row(name, "learned", f"{model.label}, learned", *_scored(scores[name])))
    label = models["gpt"].label
    if has_ngrams:
        rows.append(Row("network", "learned", f"{label} without its n-grams", *_scored(scores["network"])))
        rows.append(Row("gpt", "together", f"{label} with its n-grams", *_scored(scores["gpt"])))
    return rows


def chart_of(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the data of the chart that `dvc plots` draws, which only has val: looks at test are counted."""
    return [{"model": row.label, "bits_per_char": row.bits["val"]} for row in rows]


def _scored(scores: dict[str, Any]) -> tuple[dict[str, float], float | None]:
    return {split: score["bits_per_char"] for split, score in scores.items()}, scores["val"].get("accuracy")


def _counted_label(key: str, unit: str) -> str:
    if key == "uniform":
        return f"every {unit} equally likely"
    return COUNTED.get(key) or f"n-grams of order {key.removeprefix(NGRAM)}"
