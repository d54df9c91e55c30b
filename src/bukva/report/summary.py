"""What an experiment is worth on half a page of Markdown: the description of its run in MLflow."""

from pathlib import Path
from typing import Any

from bukva.compare.cost import stage_seconds
from bukva.compare.groups import check_comparable
from bukva.compare.results import Result, read_here, read_results
from bukva.compare.statistics.settings import Side, compare_settings
from bukva.compare.statistics.text import N_SEGMENTS, Units
from bukva.compare.statistics.wording import text_line
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.corpus.cleaning.page import code, plain, table
from bukva.evaluation.rows import rows_of
from bukva.project.revisions import resolve
from bukva.project.stages import paths, trained_models
from bukva.report.terminal import headline

MODEL = "gpt"
SPLIT = "val"  # of the comparison: each look at test is counted
SAMPLE_CHARS = 400


def summary(baseline: str) -> dict[str, str]:
    """Sections by title: scores, differences from the baseline, a sample, cost.

    baseline: the commit that the experiment started from; "" before the first one.
    """
    here = read_here()
    before = next(iter(read_results(resolve([baseline]))), None) if baseline else None
    return {
        "Scores": _scores(read_json(Path(paths()["score_table"])), _against(here, before)),
        "Differences from the baseline": _differences(here, before),
        "Sample": _sample(),
        "Cost": _cost(here),
    }


def _scores(scores: dict[str, Any], against: list[str]) -> str:
    splits = list(scores[MODEL])
    rows = sorted(rows_of(scores, trained_models()), key=lambda row: row.bits[splits[-1]])
    cells = [
        [plain(row.label), *(f"{row.bits[name]:.3f}" if name in row.bits else "" for name in splits)] for row in rows
    ]
    sentences = [headline(scores), *against]
    return "\n\n".join([*map(plain, sentences), table(["bits per character", *(f"#{name}" for name in splits)], cells)])


def _against(here: Result, before: Result | None) -> list[str]:
    """The verdict on the text of val against the baseline, if it has the same text and every character has a score."""
    if before is None or not before.is_complete:
        return []
    try:
        check_comparable(before, here, SPLIT)
    except BukvaError as error:
        return [str(error)]
    ours, theirs = here.characters, before.characters
    if ours.chars[SPLIT].sum() < N_SEGMENTS:
        return []
    units = Units.of(ours.chars[SPLIT])
    side, other = (Side.of([(0, units.sums(scores.nats(MODEL, SPLIT)))]) for scores in (ours, theirs))
    return [text_line(compare_settings(other, side, units, None, pairable=True), "baseline", "experiment", SPLIT)]


def _differences(here: Result, before: Result | None) -> str:
    if before is None or not before.params:
        return "There is no baseline: the commit has no result."
    ours, theirs = here.flat_params, before.flat_params
    changed = [key for key in dict.fromkeys([*theirs, *ours]) if theirs.get(key) != ours.get(key)]
    if not changed:
        return f"None: all parameters are those of commit {before.revision.commit[:7]}."
    rows = [[code(key), code(str(theirs.get(key))), code(str(ours.get(key)))] for key in changed]
    return table(["parameter", "baseline", "here"], rows)


def _sample() -> str:
    """What the trained GPT wrote after the last prompt, at the temperature of params.yaml, as a block of code."""
    content = read_json(Path(paths()["answers"]))
    label = trained_models()[MODEL].label
    of_gpt = [
        one
        for one in content["answers"]
        if (one["model"], one["state"], one["temperature"]) == (label, "trained", content["temperature"])
    ]
    text = of_gpt[-1]["read"] + of_gpt[-1]["written"]
    shown = text[:SAMPLE_CHARS] + (" ..." if len(text) > SAMPLE_CHARS else "")
    return "\n".join(f"    {line}" for line in shown.split("\n"))


def _cost(here: Result) -> str:
    rows = []
    for name, model in trained_models().items():
        training, seconds = here.trainings[name], stage_seconds(here, name)
        parameters = int(here.about["models"][name]["parameters"])
        took = "" if seconds is None else f"{seconds:,.0f}"
        rows.append([model.label, f"{parameters:,}", f"{training.steps:,}", f"{training.chars_seen:,}", took])
    return table(["model", "#parameters", "#updates", "#characters seen", "#seconds of training"], rows)
