"""The scores as a table for the terminal."""

from typing import Any

from rich.table import Table

ROWS = {
    "uniform": "every character as likely",
    "unigram": "by frequency",
    "bigram_exact": "bigram, counted",
    "bigram": "bigram, learned",
    "gpt": "GPT, learned",
}


def table(metrics: dict[str, Any]) -> Table:
    """Bits per character of the floors and both models on every split of reports/metrics.json."""
    parts = list(metrics["gpt"])
    window = metrics["window"]
    result = Table(
        title="Bits per character (lower is better)",
        caption=f"windows of {window['length']} characters moved by {window['stride']}",
    )
    result.add_column("model")
    for part in parts:
        result.add_column(part, justify="right")
    for key, name in ROWS.items():
        result.add_row(name, *(f"{_bits(metrics, key, part):.3f}" for part in parts), end_section=key == "bigram_exact")
    return result


def verdict(metrics: dict[str, Any]) -> str:
    """Which model is better on the text held out, by how much, and what its context is worth."""
    part = list(metrics["gpt"])[-1]
    gain = metrics["floors"][part]["bigram_exact"] - metrics["gpt"][part]["bits_per_char"]
    context = metrics["context"][part]
    return (
        f"On {part} the GPT is {abs(gain):.3f} bits per character {'better' if gain > 0 else 'worse'} than the exact "
        f"bigram; {context['gain_bits_per_char']:.3f} it owes to context beyond {context['short_context']} characters."
    )


def _bits(metrics: dict[str, Any], key: str, part: str) -> float:
    return float(
        metrics["floors"][part][key] if key in metrics["floors"][part] else metrics[key][part]["bits_per_char"]
    )
