"""The scores as a table for the terminal, and in a sentence."""

from typing import Any

from rich.table import Table

from bukva.baselines.compressors import ADAPTIVE, COMPRESSORS
from bukva.evaluation.rows import Row, rows_of
from bukva.project.stages import trained_models

SPLIT = "val"  # of the sentence: each look at test is counted


def table(scores: dict[str, Any], *, with_test: bool = False, everything: bool = False) -> Table:
    """Bits per character of reports/scores.json: the models and the best n-gram, or everything that was scored."""
    splits = [split for split in scores["gpt"] if split != "test" or with_test]
    result = Table(title="Bits per character (lower is better)", caption=_caption(scores) if everything else None)
    result.add_column("model")
    for split in splits:
        result.add_column(split, justify="right")
    shown = rows_of(scores, trained_models())
    kind = shown[0].kind
    for row in shown if everything else _main(shown, scores):
        if everything and row.kind != kind:
            result.add_section()
            kind = row.kind
        label = f"{row.label} ({COMPRESSORS[row.key].settings})" if row.key in COMPRESSORS else row.label
        result.add_row(label, *(f"{row.bits[split]:.3f}" if split in row.bits else "" for split in splits))
    return result


def headline(scores: dict[str, Any]) -> str:
    """How good the GPT is, what a bit means, and by how much it beats counting and the bigram."""
    rows = {row.key: row for row in rows_of(scores, trained_models())}
    own, counted = rows["gpt"].bits[SPLIT], rows[scores["best_counted"]]
    others = ((f"the best model that only counts ({counted.label})", counted), ("the bigram", rows["bigram"]))
    gains = [(row.bits[SPLIT] - own, name) for name, row in others]
    differences = [f"{abs(gain):.3f} bits {'better' if gain >= 0 else 'worse'} than {name}" for gain, name in gains]
    return (
        f"The GPT needs {own:.3f} bits for a character of {SPLIT}: it is as unsure as somebody who guesses among "
        f"{2**own:.1f} equally likely characters. That is {', and '.join(differences)}."
    )


def context(scores: dict[str, Any]) -> str:
    """What its longer context contributes to the score of the GPT."""
    found = scores["context"][SPLIT]
    return (
        f"Context beyond {found['short_context']} {scores['window']['unit']}s is worth "
        f"{found['gain_bits_per_char']:.3f} bits per character to the GPT on {SPLIT}."
    )


def _main(rows: list[Row], scores: dict[str, Any]) -> list[Row]:
    """The learned bigram, the best n-gram and the GPT."""
    by_key = {row.key: row for row in rows}
    return [by_key[key] for key in ("bigram", scores["best_counted"], "gpt")]


def _caption(scores: dict[str, Any]) -> str:
    window = scores["window"]
    rule = f"windows of {window['length']} {window['unit']}s, stride {window['stride']}"
    return f"{rule}; each work after its own text\n{ADAPTIVE}"
