"""The rows of the table and the figure of scores: every model and baseline of metrics.json, with its label."""

from dataclasses import dataclass
from typing import Any, Literal

from bukva.baselines.compressors import COMPRESSORS
from bukva.pipeline.stages import TrainedModel

Kind = Literal["counted", "compressor", "learned", "mixture"]
COUNTED = {
    "uniform": "every character equally likely",
    "unigram": "by frequency",
    "bigram_exact": "bigram, counted",
}


@dataclass(frozen=True)
class Row:
    """One model or baseline: its key in metrics.json, what it is called, and split -> bits per character.

    settings: of a compressor.
    """

    key: str
    kind: Kind
    label: str
    bits: dict[str, float]
    settings: str = ""


def rows_of(metrics: dict[str, Any], models: dict[str, TrainedModel]) -> list[Row]:
    """All rows in the order of their kinds; a baseline that was not computed is absent."""
    baselines, splits = metrics["baselines"], list(metrics["gpt"])
    rows = []
    for key in baselines["val"]:
        bits = {split: baselines[split][key] for split in splits if key in baselines[split]}
        if key in COMPRESSORS:
            rows.append(Row(key, "compressor", key, bits, COMPRESSORS[key].settings))
        else:
            rows.append(Row(key, "counted", _counted(key), bits))
    for name, model in models.items():
        rows.append(Row(name, "learned", f"{model.label}, learned", _bits(metrics[name])))
    mixture = dict(metrics["mixture"])
    learned, counted = mixture.pop("of")
    label = f"half {models[learned].label}, half {_counted(counted)}"
    return [*rows, Row("mixture", "mixture", label, _bits(mixture))]


def _bits(scores: dict[str, Any]) -> dict[str, float]:
    return {split: score["bits_per_char"] for split, score in scores.items()}


def _counted(key: str) -> str:
    return COUNTED.get(key) or f"n-grams of order {key.removeprefix('ngram_')}"
