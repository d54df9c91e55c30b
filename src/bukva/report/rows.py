"""The rows of the table and the figure of scores: every model and baseline of metrics.json, with its label."""

from dataclasses import dataclass
from typing import Any, Literal

from bukva.pipeline.stages import TrainedModel

Kind = Literal["counted", "compressor", "learned", "mixture"]
COUNTED = {
    "uniform": "every character equally likely",
    "unigram": "by frequency",
    "bigram_exact": "bigram, counted",
}


@dataclass(frozen=True)
class Row:
    """One model or baseline: its key in metrics.json, what it is called, and split -> bits per character."""

    key: str
    kind: Kind
    label: str
    bits: dict[str, float]


def rows_of(metrics: dict[str, Any], models: dict[str, TrainedModel]) -> list[Row]:
    """All rows in the order of their kinds; a baseline that was not computed is absent."""
    baselines = metrics["baselines"]
    splits = list(metrics["gpt"])
    rows = [
        Row(key, *named, {split: baselines[split][key] for split in splits if key in baselines[split]})
        for key in baselines["val"]
        if (named := _named(key))
    ]
    for name, model in models.items():
        bits = {split: metrics[name][split]["bits_per_char"] for split in splits}
        rows.append(Row(name, "learned", f"{model.label}, learned", bits))
    mixture = metrics["mixture"]
    learned, counted = mixture["of"]
    label = f"half {models[learned].label}, half {_named(counted)[1]}"
    rows.append(
        Row(
            "mixture",
            "mixture",
            label,
            {split: mixture[split]["bits_per_char"] for split in splits if split in mixture},
        )
    )
    return rows


def _named(key: str) -> tuple[Kind, str]:
    if key in COUNTED:
        return "counted", COUNTED[key]
    return "counted", f"n-grams of order {key.removeprefix('ngram_')}"
