"""Rows of the table and chart of scores: every model and baseline of scores.json, with its label."""

from dataclasses import dataclass
from typing import Any, Literal

from bukva.project.stages import TrainedModel

Kind = Literal["counted", "compressor", "learned", "together"]
COUNTED = {
    "unigram": "by frequency",
    "bigram_exact": "bigram, counted",
}
NGRAM = "ngram_"
ADAPTIVE_ROWS = WITHIN, STREAM = "adaptive", "stream"  # the rows of bukva.evaluation.adaptive
LABELS = {WITHIN: "learning on within each work", STREAM: "learning on, all works as one stream"}


@dataclass(frozen=True)
class Row:
    """Scores of one model or baseline.

    key: key in scores.json.
    label: name for readers.
    bits: split -> bits per character.
    accuracy: accuracy on val; None if it was not computed.
    """

    key: str
    kind: Kind
    label: str
    bits: dict[str, float]
    accuracy: float | None = None


def rows_of(scores: dict[str, Any], models: dict[str, TrainedModel]) -> list[Row]:
    """Return the rows of scores.json: first counted baselines and compressors, then the models.

    A baseline that was not computed has no row.
    """
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
    return [
        *rows,
        *(
            Row(key, "together", f"{label}, {LABELS[key]}", *_scored(scores[key]))
            for key in ADAPTIVE_ROWS
            if key in scores
        ),
    ]


def chart_of(rows: list[Row]) -> list[dict[str, Any]]:
    """Return the data that `dvc plots` draws: bits on val, because every look at test scores is counted."""
    return [{"model": row.label, "bits_per_char": row.bits["val"]} for row in rows]


def _scored(scores: dict[str, Any]) -> tuple[dict[str, float], float | None]:
    """Return the bits per character by split, and the accuracy on val."""
    return {split: score["bits_per_char"] for split, score in scores.items()}, scores["val"].get("accuracy")


def _counted_label(key: str, unit: str) -> str:
    if key == "uniform":
        return f"every {unit} equally likely"
    return COUNTED.get(key) or f"n-grams of order {key.removeprefix(NGRAM)}"
