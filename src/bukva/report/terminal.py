"""The scores as a table for the terminal."""

from typing import Any

from rich.table import Table

from bukva.baselines.compressors import ADAPTIVE
from bukva.pipeline.stages import trained_models
from bukva.report.rows import rows_of
from bukva.scoring.characters import CharScores
from bukva.statistics.settings import Side, compare_settings
from bukva.statistics.units import N_SEGMENTS, Units
from bukva.statistics.wording import text_line


def table(scores: dict[str, Any]) -> Table:
    """Bits per character of the baselines and models on every split of reports/scores.json."""
    splits = list(scores["gpt"])
    window = scores["window"]
    rule = f"windows of {window['length']} {window['unit']}s, stride {window['stride']}"
    result = Table(
        title="Bits per character (lower is better)",
        caption=f"{rule}; each work after its own text\n{ADAPTIVE}",
    )
    result.add_column("model")
    for split in splits:
        result.add_column(split, justify="right")
    kind = "counted"
    for row in rows_of(scores, trained_models()):
        if row.kind != kind:
            result.add_section()
            kind = row.kind
        label = f"{row.label} ({row.settings})" if row.settings else row.label
        result.add_row(label, *(f"{row.bits[split]:.3f}" if split in row.bits else "" for split in splits))
    return result


def against_counting(scores: dict[str, Any], nats: CharScores) -> list[str]:
    """Whether the GPT is better than the best of what is counted, and how it compares with half of each.

    Nothing about a text that is too short for an interval.
    """
    split = list(scores["gpt"])[-1]
    if nats.chars[split].sum() < N_SEGMENTS:
        return []
    models = trained_models()
    labels = {row.key: row.label for row in rows_of(scores, models)} | {"gpt": models["gpt"].label}
    best = scores["best_counted"]
    units = Units.of(nats.chars[split])
    sides = {key: Side.of([(0, units.sums(nats.nats(key, split)))]) for key in (best, "gpt", "mixture")}
    return [
        text_line(compare_settings(sides[a], sides[b], units, None, pairable=True), labels[a], labels[b], split)
        for a, b in ((best, "gpt"), ("mixture", "gpt") if "network" in scores else ("gpt", "mixture"))
    ]


def verdict(scores: dict[str, Any]) -> str:
    """The GPT against the exact bigram on the held-out text, and what its longer context contributes."""
    split = list(scores["gpt"])[-1]
    gain = scores["baselines"][split]["bigram_exact"] - scores["gpt"][split]["bits_per_char"]
    context = scores["context"][split]
    return (
        f"On {split} the GPT is {abs(gain):.3f} bits per character {'better' if gain > 0 else 'worse'} than the exact "
        f"bigram; {context['gain_bits_per_char']:.3f} of that comes from context beyond {context['short_context']} "
        f"{scores['window']['unit']}s."
    )


def best_baseline(scores: dict[str, Any]) -> list[str]:
    """A sentence about the best baseline if it is better than the GPT on the held-out text, else nothing."""
    split = list(scores["gpt"])[-1]
    own = scores["gpt"][split]["bits_per_char"]
    rows = [row for row in rows_of(scores, trained_models()) if split in row.bits]
    best = min(rows, key=lambda row: row.bits[split])
    if best.bits[split] >= own:
        return []
    how = ", which learns on from the text that it is scored on," if best.kind == "compressor" else ""
    return [f"The best score on {split} is not the GPT's {own:.3f}: {best.label}{how} has {best.bits[split]:.3f}."]
