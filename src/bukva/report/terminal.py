"""The scores as a table for the terminal."""

from typing import Any

from rich.table import Table

from bukva.pipeline.stages import trained_models
from bukva.report.rows import rows_of


def table(metrics: dict[str, Any]) -> Table:
    """Bits per character of the baselines and models on every split of reports/metrics.json."""
    splits = list(metrics["gpt"])
    window = metrics["window"]
    result = Table(
        title="Bits per character (lower is better)",
        caption=f"windows of {window['length']} characters, stride {window['stride']}; each work after its own text",
    )
    result.add_column("model")
    for split in splits:
        result.add_column(split, justify="right")
    kind = "counted"
    for row in rows_of(metrics, trained_models()):
        if row.kind != kind:
            result.add_section()
            kind = row.kind
        label = f"{row.label} ({row.settings})" if row.settings else row.label
        result.add_row(label, *(f"{row.bits[split]:.3f}" if split in row.bits else "" for split in splits))
    return result


def verdict(metrics: dict[str, Any]) -> str:
    """The GPT against the exact bigram on the held-out text, and what its longer context contributes."""
    split = list(metrics["gpt"])[-1]
    gain = metrics["baselines"][split]["bigram_exact"] - metrics["gpt"][split]["bits_per_char"]
    context = metrics["context"][split]
    return (
        f"On {split} the GPT is {abs(gain):.3f} bits per character {'better' if gain > 0 else 'worse'} than the exact "
        f"bigram; {context['gain_bits_per_char']:.3f} of that comes from context beyond {context['short_context']} "
        "characters."
    )
