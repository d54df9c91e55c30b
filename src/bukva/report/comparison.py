"""A comparison for the terminal, as Markdown and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from bukva.compare.comparison import Comparison
from bukva.compare.cost import Cost
from bukva.compare.groups import Setting
from bukva.compare.statistics.wording import authors_line, detectable_line, settings_line, text_line
from bukva.project.stages import trained_models

if TYPE_CHECKING:
    from rich.table import Table

MAX_CODE = 3  # files that are named
COMMAND = "bukva seeds 5"


def print_comparisons(comparisons: Sequence[Comparison], as_json: bool) -> None:
    """Print them for a person or, as JSON, for a program."""
    if as_json:
        print(json.dumps(to_json(comparisons), ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for comparison in comparisons:
        console.print(table(comparison))
        for sentence in sentences(comparison):
            console.print(sentence, soft_wrap=True)
        console.print()


def sentences(comparison: Comparison) -> list[str]:
    """The verdict lines and what qualifies them, one sentence a line."""
    a, b = comparison.a.name, comparison.b.name
    verdict = comparison.verdict
    found = [_settings_line(comparison), text_line(verdict, a, b, comparison.split)]
    if verdict.verdict != "identical" and not comparison.same_settings:
        found.append(detectable_line(verdict))
    if comparison.authors:
        found.append(authors_line(comparison.authors, a, b, comparison.a.result.author_word))
    found += comparison.remarks
    if comparison.code:
        more = f" and {len(comparison.code) - MAX_CODE} more" if len(comparison.code) > MAX_CODE else ""
        found.append(f"The code differs, too: {', '.join(comparison.code[:MAX_CODE])}{more}.")
    return found


def table(comparison: Comparison) -> "Table":
    """Both sides: scores, what they cost, and the parameters that differ."""
    from rich.table import Table

    result = Table(title=f"{trained_models()[comparison.a.model].label} on {comparison.split}")
    result.add_column("")
    for letter, setting in (("A", comparison.a), ("B", comparison.b)):
        result.add_column(f"{letter}: {setting.name}", justify="right")
    for row in rows(comparison):
        result.add_row(*row)
    return result


def rows(comparison: Comparison) -> list[tuple[str, str, str]]:
    """What the table shows: a name, and its values in A and B."""
    both = comparison.a, comparison.b
    found = [
        ("bits per character", *(score_of(setting, comparison.split) for setting in both)),
        ("seeds", *(", ".join(map(str, setting.seeds)) for setting in both)),
        ("parameters", *(f"{setting.cost.parameters:,}" for setting in both)),
        ("characters seen", *(f"{setting.cost.chars_seen:,}" for setting in both)),
        ("seconds of training", *(seconds_of(setting.cost) for setting in both)),
    ]
    found += [(key, _value(ours), _value(theirs)) for key, (ours, theirs) in comparison.changed.items()]
    return [(name, ours, theirs) for name, ours, theirs in found]


def markdown(comparison: Comparison) -> str:
    """The same as an artifact of a run in MLflow."""
    head = ("", f"A: {comparison.a.name}", f"B: {comparison.b.name}")
    lines = [f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in (head, *rows(comparison))]
    return "\n\n".join([*sentences(comparison), "\n".join([lines[0], "|---|---|---|", *lines[1:]])])


def to_json(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Plain numbers, strings and None, for other programs."""
    return [
        {
            "a": _side(comparison.a, comparison.split),
            "b": _side(comparison.b, comparison.split),
            "model": comparison.a.model,
            "split": comparison.split,
            **comparison.verdict.to_json(),
            "same_settings": comparison.same_settings,
            "changed": {key: list(values) for key, values in comparison.changed.items()},
            "code": list(comparison.code),
            "authors": asdict(comparison.authors) if comparison.authors else None,
            "sentences": sentences(comparison),
        }
        for comparison in comparisons
    ]


def _settings_line(comparison: Comparison) -> str:
    a, b = comparison.a, comparison.b
    if comparison.same_settings and comparison.verdict.verdict != "identical":
        return (
            f"No verdict: {b.name} and {a.name} have the same settings, and differ in the seed only ({a.seeds[0]} and "
            f"{b.seeds[0]})."
        )
    return settings_line(comparison.verdict, a.name, b.name, COMMAND)


def _side(setting: Setting, split: str) -> dict[str, Any]:
    return {
        "name": setting.name,
        "experiments": [list(member.names) for member in setting.members],
        "seeds": setting.seeds,
        "bits_per_char": setting.scores(split),
        "parameters": setting.cost.parameters,
        "chars_seen": setting.cost.chars_seen,
        "seconds": setting.cost.seconds,
    }


def score_of(setting: Setting, split: str) -> str:
    """Bits per character, with the standard deviation between seeds where there are several."""
    scores = setting.scores(split)
    return f"{mean(scores):.3f} ± {stdev(scores):.3f}" if len(scores) > 1 else f"{scores[0]:.3f}"


def seconds_of(cost: Cost) -> str:
    """Of one training."""
    return f"{cost.seconds:,.0f}" if cost.seconds is not None else "unknown"


def _value(value: Any) -> str:
    return "(none)" if value is None else str(value)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
