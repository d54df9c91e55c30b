"""The scores as a table for the terminal."""

from typing import Any

from rich.table import Table

from bukva.pipeline.stages import trained_models

BASELINES = {
    "uniform": "every character equally likely",
    "unigram": "by frequency",
    "bigram_exact": "bigram, counted",
}


def table(metrics: dict[str, Any]) -> Table:
    """Bits per character of the baselines and models on every split of reports/metrics.json."""
    splits = list(metrics["gpt"])
    window = metrics["window"]
    result = Table(
        title="Bits per character (lower is better)",
        caption=f"windows of {window['length']} characters with stride {window['stride']}",
    )
    result.add_column("model")
    for split in splits:
        result.add_column(split, justify="right")
    for key, name in BASELINES.items():
        result.add_row(name, *(f"{metrics['baselines'][split][key]:.3f}" for split in splits))
    result.add_section()
    for model in trained_models().values():
        scores = metrics[model.name]
        result.add_row(f"{model.label}, learned", *(f"{scores[split]['bits_per_char']:.3f}" for split in splits))
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
