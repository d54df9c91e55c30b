"""Print comparisons of two settings, A and B, and convert comparisons to Markdown and JSON."""

import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import mean, stdev
from typing import Any

from bukva.compare.comparison import Comparison
from bukva.compare.groups import Setting
from bukva.compare.statistics.estimate import Estimate, resolved_by
from bukva.compare.statistics.settings import MATTERS, MIN_SEEDS, SettingsVerdict
from bukva.core.params import PARAMS
from bukva.core.words import count
from bukva.corpus.cleaning.page import plain
from bukva.corpus.cleaning.page import table as as_markdown
from bukva.project.stages import trained_models
from bukva.report.terminal import DIGITS, Cells, show
from bukva.tracking.record import run_of, save_note, start_sync

MAX_CODE = 3  # number of changed code files that a sentence names
COMMAND = f"bukva seeds {MIN_SEEDS}"  # for two settings, enough for a verdict and a noise floor
NEXT_SEEDS = (3, 5, 10, 20)  # numbers of seeds per setting that are proposed to the user
MOST_DIGITS = 9  # maximum number of decimal places of bits


def show_and_save(comparisons: Sequence[Comparison], as_json: bool = False) -> None:
    """Print comparisons of settings with a setting A, and save each verdict in the MLflow run of the other setting."""
    print_comparisons(comparisons, as_json)
    missing = [comparison.b.name for comparison in comparisons if not _save_verdict(comparison)]
    if len(missing) < len(comparisons):
        start_sync()
    if missing and not as_json:
        names = ", ".join(missing)
        print(f"The verdict is not in MLflow, because this checkout has no run of {names}.", file=sys.stderr)


def _save_verdict(comparison: Comparison) -> bool:
    """Save a verdict as a tag and an artifact of the MLflow run of setting B."""
    a = re.sub(r"[^\w.-]", "-", comparison.a.name)  # MLflow allows few characters in names
    key = f"{a}.{comparison.a.model}.{comparison.split}"
    header, rows = table(comparison)
    as_table = as_markdown(list(map(plain, header)), [list(map(plain, row)) for row in rows])
    content = "\n\n".join([*sentences(comparison), as_table])
    page = {f"comparisons/{key.replace('.', '-')}.md": content.encode()}
    made = run_of(comparison.b.result.lock, comparison.b.name)
    return made is not None and save_note(made, {f"bukva.against.{key}": comparison.verdict.verdict}, page)


def print_comparisons(comparisons: Sequence[Comparison], as_json: bool) -> None:
    if as_json:
        print(json.dumps(list(map(to_json, comparisons)), ensure_ascii=False, indent=2))
        return
    for comparison in comparisons:
        title = f"{trained_models()[comparison.a.model].label} on {comparison.split}"
        show(title, *table(comparison), [*sentences(comparison), ""])


def table(comparison: Comparison) -> Cells:
    """Return the header and the rows of a table with the scores, the costs and the differing parameters of A and B."""
    a, b = comparison.a, comparison.b
    rows = [
        ["bits per character", *(score_of(each, comparison.split) for each in (a, b))],
        ["seeds", *(", ".join(map(str, each.seeds)) for each in (a, b))],
        ["parameters", *(f"{each.parameters:,}" for each in (a, b))],
        ["characters seen", *(f"{each.chars_seen:,}" for each in (a, b))],
        ["seconds of training", seconds_of(a), seconds_of(b)],
    ]
    for key, values in comparison.changed.items():
        rows.append([key, *("(none)" if value is None else str(value) for value in values)])
    return ["", f"A: {a.name}", f"B: {b.name}"], rows


def sentences(comparison: Comparison) -> list[str]:
    """Return the lines that describe a comparison. The first line states the verdict; the others explain it."""
    a, b, verdict = comparison.a, comparison.b, comparison.verdict
    headline = settings_line(verdict, a.name, b.name, more_seeds(comparison))
    lines = [headline, text_line(verdict, a.name, b.name, comparison.split)]
    if verdict.verdict != "identical":
        if comparison.same_settings:
            lines[0] = (
                f"No verdict: the trainings of {a.name} and {b.name} differ only in the seed "
                f"({a.seeds[0]} and {b.seeds[0]})."
            )
        else:
            lines.append(detectable_line(verdict))
    if authors := comparison.authors:
        scale = f"better than {a.name} on {authors.better} of {len(authors.effects)}, worse on {authors.worse}"
        deciding = [
            f" Without {effect.author}, the verdict on this text would be: {effect.without}."
            for effect in authors.effects
            if effect.without
        ]
        lines.append(f"By {a.result.author_word}: {b.name} is {scale}.{''.join(deciding)}")
    lines += [*floor_line(comparison), *comparison.remarks]
    if comparison.code:
        more = f" and {len(comparison.code) - MAX_CODE} more" if len(comparison.code) > MAX_CODE else ""
        lines.append(f"The code also differs: {', '.join(comparison.code[:MAX_CODE])}{more}.")
    return lines


def text_line(verdict: SettingsVerdict, a: str, b: str, split: str) -> str:
    """Return the line below the headline, which says which of the models of `a` and `b` predicts the text better."""
    model_a, model_b = (
        f"model {name}" if len(seeds) == 1 else f"the mean of {len(seeds)} models {name}"
        for name, seeds in ((a, verdict.seeds_a), (b, verdict.seeds_b))
    )
    text, start = verdict.text, f"On this {split} text, "
    if text.verdict == "identical":
        return f"{start}{model_b} and {model_a} have identical scores."
    units = count(text.n_units, text.unit.removesuffix("s"))
    units += ", not valid for other works" if text.unit == "segments" else ""
    if text.verdict == "cannot tell":
        return f"{start}{model_b} and {model_a} do not differ significantly: {_signed(text.estimate)}; {units})."
    return f"{start}{model_b} is {text.verdict} than {model_a} by {_size(text.estimate)}; {units})."


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


def floor_line(comparison: Comparison) -> list[str]:
    """Return a sentence if the verdict uses the noise floor of one recipe family, and A and B are of two."""
    a, b = comparison.a, comparison.b
    if comparison.verdict.method != "noise floor" or a.family == b.family:
        return []
    return [
        f"{b.name} and {a.name} have different optimizers or test texts, so the verdict uses the larger of their noise "
        "floors, or the only one that is known."
    ]


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


def _seeds(verdict: SettingsVerdict) -> str:
    k_a, k_b = len(verdict.seeds_a), len(verdict.seeds_b)
    if verdict.method == "paired":
        return f"{k_a} paired seeds"
    each = "one seed each" if k_a == k_b == 1 else f"{k_a} seeds each" if k_a == k_b else f"{k_a} and {k_b} seeds"
    return f"{each}, unpaired" if verdict.method == "unpaired" else each


def _size(estimate: Estimate) -> str:
    """Return the absolute difference and its interval, such as "0.062 bits (0.051 to 0.073"."""
    return _signed(estimate if estimate.difference > 0 else replace(estimate, difference=-estimate.difference), "z")


def _signed(estimate: Estimate, sign: str = "+z") -> str:
    """Return the difference and its interval with signs, such as "-0.002 bits (-0.030 to +0.025"."""
    low, high = estimate.interval
    form = f"{sign}.{_digits(estimate)}f"
    return f"{estimate.difference:{form}} bits ({low:{form}} to {high:{form}}"


def _digits(estimate: Estimate) -> int:
    """Return the number of decimal places, 3 to 9, that shows the first nonzero digit of the standard error."""
    shown = estimate.se or abs(estimate.difference) or 1.0
    return min(MOST_DIGITS, max(DIGITS, math.ceil(-math.log10(shown))))


def more_seeds(comparison: Comparison) -> str:
    """Return a shell command that trains each of the two settings with more seeds if it has fewer than MIN_SEEDS.

    `bukva seeds` queues trainings of the setting that is checked out, so the setting that already is comes first.
    """
    few = [setting for setting in (comparison.a, comparison.b) if len(setting.seeds) < MIN_SEEDS]
    model = "" if comparison.a.model == "gpt" else f" --model {comparison.a.model}"
    steps = [f"{checkout}{COMMAND}{model}" for checkout in sorted(map(_checkout, few), key=bool)]
    return " && ".join([*steps, "dvc queue start"])


def _checkout(setting: Setting) -> str:
    """Return a shell command, followed by "&&", that checks out a setting; empty if it is checked out already."""
    revision = setting.revision
    if revision.is_workspace:
        return ""
    if revision.baseline:
        return f"dvc exp apply {revision.for_dvc} && "
    return f"git checkout {revision.name}{f' {PARAMS}' if revision.name == 'HEAD' else ''} && "


def to_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "a": _setting_json(comparison.a, comparison.split),
        "b": _setting_json(comparison.b, comparison.split),
        "model": comparison.a.model,
        "split": comparison.split,
        **comparison.verdict.to_json(),
        "same_settings": comparison.same_settings,
        "changed": {key: list(values) for key, values in comparison.changed.items()},
        "code": list(comparison.code),
        "authors": asdict(comparison.authors) if comparison.authors else None,
        "sentences": sentences(comparison),
    }


def _setting_json(setting: Setting, split: str) -> dict[str, Any]:
    return {
        "name": setting.name,
        "experiments": [list(member.names) for member in setting.members],
        "bits_per_char": setting.scores(split),
        **costs(setting),
    }


def costs(setting: Setting) -> dict[str, Any]:
    """Return the seeds and the cost of one training for JSON output."""
    return {name: getattr(setting, name) for name in ("seeds", "parameters", "chars_seen", "seconds")}


def score_of(setting: Setting, split: str) -> str:
    """Format the bits per character of a setting, for several seeds as mean ± standard deviation; "" without scores."""
    scores = setting.scores(split)
    return f"{mean(scores):.3f} ± {stdev(scores):.3f}" if len(scores) > 1 else "".join(f"{one:.3f}" for one in scores)


def seconds_of(setting: Setting) -> str:
    """Format the duration of one training in seconds, without the unit."""
    return f"{setting.seconds:,.0f}" if setting.seconds is not None else "unknown"
