"""Write verdicts as sentences for the terminal, Markdown and MLflow.

The headline (`settings_line`) is about the settings, and the line below it (`text_line`) about the trained models.
"""

import math

from bukva.compare.statistics.estimate import Estimate, resolved_by
from bukva.compare.statistics.settings import MATTERS, SettingsVerdict
from bukva.compare.statistics.text import Authors, TextVerdict
from bukva.core.words import count

NEXT_SEEDS = (3, 5, 10, 20)  # numbers of seeds per setting that are proposed to the user
DIGITS, MOST_DIGITS = 3, 9  # minimum and maximum number of decimal places of bits


def text_line(verdict: SettingsVerdict, a: str, b: str, split: str) -> str:
    """Return the line below the headline, which says which of the models of `a` and `b` predicts the text better."""
    model_a, model_b = _models(a, len(verdict.seeds_a)), _models(b, len(verdict.seeds_b))
    text, start = verdict.text, f"On this {split} text, "
    if text.verdict == "identical":
        return f"{start}{model_b} and {model_a} have identical scores."
    if text.verdict == "cannot tell":
        return f"{start}{model_b} and {model_a} do not differ significantly: {_signed(text.estimate)}; {_units(text)})."
    return f"{start}{model_b} is {text.verdict} than {model_a} by {_size(text.estimate)}; {_units(text)})."


def settings_line(verdict: SettingsVerdict, a: str, b: str, command: str) -> str:
    """Return the headline: the verdict on settings `b` against `a`, and `command` if more seeds are needed."""
    word, about = verdict.verdict.capitalize(), f"settings {b} against {a}"
    seeds = _seeds(verdict) + (f"; Holm-corrected for {verdict.compared} comparisons" if verdict.compared > 1 else "")
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
        more = f" Differences below {MATTERS} bits do not matter."
    return f"{word}{by}; {seeds}): {about}.{more}"


def detectable_line(verdict: SettingsVerdict) -> str:
    text = verdict.text.estimate
    digits = _digits(text)
    line = f"Smallest detectable difference: {text.smallest_detectable:.{digits}f} bits between models on this text"
    if verdict.estimate is None or verdict.seed_sd is None:
        return f"{line}; unknown between settings, because the noise floor is unknown."
    digits = _digits(verdict.estimate)
    line += f", {verdict.estimate.smallest_detectable:.{digits}f} bits between settings."
    k = next((k for k in NEXT_SEEDS if k > min(len(verdict.seeds_a), len(verdict.seeds_b))), None)
    if k is None:
        return line
    resolved = resolved_by(k, verdict.seed_sd, paired=verdict.method == "paired", text=(text.se**2, text.df))
    return f"{line} With {k} seeds per setting, {resolved:.{digits}f} bits would be detectable."


def authors_line(authors: Authors, a: str, b: str, author: str) -> str:
    """Return a line with the numbers of authors on whose works `b` is better and worse than `a`.

    The line also names each author without whose works the verdict would change. `author` is the word for a group of
    works in this corpus, "author" or "collection".
    """
    n = len(authors.effects)
    line = f"By {author}: {b} is better than {a} on {authors.better} of {n}, worse on {authors.worse}."
    for effect in authors.deciding:
        line += f" Without {effect.author}, the verdict on this text would be: {effect.without}."
    return line


def _models(name: str, k: int) -> str:
    return f"model {name}" if k == 1 else f"the mean of {k} models {name}"


def _units(text: TextVerdict) -> str:
    return count(text.n_units, text.unit.removesuffix("s")) + (
        ", not valid for other works" if text.unit == "segments" else ""
    )


def _seeds(verdict: SettingsVerdict) -> str:
    k_a, k_b = len(verdict.seeds_a), len(verdict.seeds_b)
    if verdict.method == "paired":
        return f"{k_a} paired seeds"
    each = "one seed each" if k_a == k_b == 1 else f"{k_a} seeds each" if k_a == k_b else f"{k_a} and {k_b} seeds"
    return f"{each}, unpaired" if verdict.method == "unpaired" else each


def _size(estimate: Estimate) -> str:
    """Return the absolute difference and its interval, such as "0.062 bits (0.051 to 0.073"."""
    digits = _digits(estimate)
    low, high = sorted(abs(edge) for edge in estimate.interval)
    return f"{abs(estimate.difference):.{digits}f} bits ({low:.{digits}f} to {high:.{digits}f}"


def _signed(estimate: Estimate) -> str:
    """Return the difference and its interval with signs, such as "-0.002 bits (-0.030 to +0.025"."""
    digits = _digits(estimate)
    low, high = estimate.interval
    return f"{signed(estimate.difference, digits)} bits ({signed(low, digits)} to {signed(high, digits)}"


def signed(bits: float, digits: int = DIGITS) -> str:
    """Return a number of bits with its sign. Numbers that are rounded to 0 have a plus sign."""
    return f"{bits:+z.{digits}f}"


def better_or_worse(difference: float) -> str:
    """Return for example "0.062 bits better than" for -0.062, or "as good as" if the difference is rounded to 0."""
    size = f"{abs(difference):.{DIGITS}f}"
    return "as good as" if not float(size) else f"{size} bits {'better' if difference < 0 else 'worse'} than"


def _digits(estimate: Estimate) -> int:
    """Return the number of decimal places, 3 to 9, that shows the first nonzero digit of the standard error."""
    shown = estimate.se or abs(estimate.difference) or 1.0
    return min(MOST_DIGITS, max(DIGITS, math.ceil(-math.log10(shown))))
