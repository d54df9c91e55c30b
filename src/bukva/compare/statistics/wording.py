"""Verdicts in words: plain sentences for the terminal, Markdown and MLflow.

The first line is the headline: it is about the settings, and begins with the word to act on. The second is about the
models that were trained, on the text that was scored.
"""

import math

from bukva.compare.statistics.estimate import Estimate, resolved_by
from bukva.compare.statistics.settings import MATTERS, SettingsVerdict
from bukva.compare.statistics.text import Authors, TextVerdict

NEXT_SEEDS = (3, 5, 10, 20)  # seeds a side that are proposed
DIGITS, MOST_DIGITS = 3, 9  # of bits, after the point


def text_line(verdict: SettingsVerdict, a: str, b: str, split: str) -> str:
    """The second line: the models that were trained, on the text that was scored."""
    model_a, model_b = _models(a, len(verdict.seeds_a)), _models(b, len(verdict.seeds_b))
    text, start = verdict.text, f"On this {split} text, "
    if text.verdict == "identical":
        return f"{start}{model_b} and {model_a} are identical: there is no difference anywhere."
    if text.verdict == "cannot tell":
        return f"{start}{model_b} and {model_a} cannot be told apart: {_signed(text.estimate)}; {_units(text)})."
    return f"{start}{model_b} is {text.verdict} than {model_a} by {_size(text.estimate)}; {_units(text)})."


def settings_line(verdict: SettingsVerdict, a: str, b: str, command: str) -> str:
    """The headline: whether the difference is one of the settings or of the seeds.

    command: adds seeds, for example `bukva seeds 3`.
    """
    word, about = verdict.verdict.capitalize(), f"settings {b} against {a}"
    seeds = _seeds(verdict) + (f"; Holm over {verdict.compared}" if verdict.compared > 1 else "")
    if verdict.verdict == "identical":
        return f"{word}: {about}."
    if verdict.estimate is None:
        return f"{word} from {seeds}: {about}. To add seeds: {command}"
    has_direction = verdict.verdict.endswith(("better", "worse"))
    by = f" by {_size(verdict.estimate)}" if has_direction else f", {_signed(verdict.estimate)}"
    more = ""
    if verdict.method == "noise floor":
        more = f" To {'confirm' if has_direction else 'find out'}, add seeds: {command}"
    elif verdict.verdict == "no difference that matters":
        more = f" The limit is {MATTERS} bits."
    return f"{word}{by}; {seeds}): {about}.{more}"


def detectable_line(verdict: SettingsVerdict) -> str:
    """The smallest detectable difference, and what more seeds would resolve."""
    text = verdict.text.estimate
    digits = _digits(text)
    line = f"Smallest detectable difference: {text.smallest_detectable:.{digits}f} bits between models on this text"
    if verdict.estimate is None or verdict.seed_sd is None:
        return f"{line}; between settings it is unknown until the noise floor is."
    digits = _digits(verdict.estimate)
    line += f", {verdict.estimate.smallest_detectable:.{digits}f} bits between settings."
    k = next((k for k in NEXT_SEEDS if k > min(len(verdict.seeds_a), len(verdict.seeds_b))), None)
    if k is None:
        return line
    resolved = resolved_by(k, verdict.seed_sd, paired=verdict.method == "paired", text=(text.se**2, text.df))
    return f"{line} {k} seeds a side would resolve {resolved:.{digits}f} bits."


def authors_line(authors: Authors, a: str, b: str, author: str) -> str:
    """How many authors, or what the corpus has, move which way, and those without whom the verdict is another."""
    n = len(authors.effects)
    line = f"By {author}: {b} is better than {a} on {authors.better} of {n}, worse on {authors.worse}."
    for effect in authors.deciding:
        line += f" Without {effect.author}, the verdict over the text would be: {effect.without}."
    return line


def _models(name: str, k: int) -> str:
    return f"model {name}" if k == 1 else f"the mean of {k} models {name}"


def _units(text: TextVerdict) -> str:
    return f"{text.n_units} {text.unit}" + (": more of this text only" if text.unit == "segments" else "")


def _seeds(verdict: SettingsVerdict) -> str:
    k_a, k_b = len(verdict.seeds_a), len(verdict.seeds_b)
    if verdict.method == "paired":
        return f"{k_a} paired seeds"
    each = "one seed each" if k_a == k_b == 1 else f"{k_a} seeds each" if k_a == k_b else f"{k_a} and {k_b} seeds"
    return f"{each}, unpaired" if verdict.method == "unpaired" else each


def _size(estimate: Estimate) -> str:
    """A difference whose direction is said in words: 0.062 bits (0.051 to 0.073, without the closing bracket."""
    digits = _digits(estimate)
    low, high = sorted(abs(edge) for edge in estimate.interval)
    return f"{abs(estimate.difference):.{digits}f} bits ({low:.{digits}f} to {high:.{digits}f}"


def _signed(estimate: Estimate) -> str:
    """A difference whose interval includes 0: -0.002 bits (-0.030 to +0.025, without the closing bracket."""
    digits = _digits(estimate)
    low, high = estimate.interval
    return f"{signed(estimate.difference, digits)} bits ({signed(low, digits)} to {signed(high, digits)}"


def signed(bits: float, digits: int = DIGITS) -> str:
    """Return a difference with its sign; one that is rounded to 0 has a plus."""
    return f"{bits:+z.{digits}f}"


def better_or_worse(difference: float) -> str:
    """Return "0.062 bits better than" for -0.062, and "as good as" for what is rounded to 0."""
    size = f"{abs(difference):.{DIGITS}f}"
    return "as good as" if not float(size) else f"{size} bits {'better' if difference < 0 else 'worse'} than"


def _digits(estimate: Estimate) -> int:
    """Return how many digits show the standard error, or the difference if it has none."""
    shown = estimate.se or abs(estimate.difference) or 1.0
    return min(MOST_DIGITS, max(DIGITS, math.ceil(-math.log10(shown))))
