"""The sections of the report page about text: samples and what of them is new, anatomy, corpus and split."""

import itertools
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from bukva.corpus.cleaning.removals import visible
from bukva.interpret.characters import Characters, Extreme, anatomy, extremes
from bukva.interpret.novelty import COPIED, Copy, Novelty, novelty, open_train
from bukva.report import charts
from bukva.report.page.experiment import SPLIT, Experiment, work_label

HUMAN = "people (val)"
MOST_HUMAN = 200_000  # characters of val that are compared with samples
N_EXTREMES = 20
BY = {
    "place": "place in the word",
    "class": "class of character",
    "category": "category",
    "author": "author",
    "decade": "decade",
    "work": "work",
}
IN_ORDER = {"decade"}
MOST_GROUPS = 40
MOST_SYMBOLS = 60
SIGNS = {"\n": "⏎", " ": "␣", "\t": "⇥"}  # white space, as a chart shows it

Part = tuple[str, Any]
Writer = tuple[str, str, float]  # model, state and temperature


def samples(experiment: Experiment, human: Characters) -> tuple[dict[str, Any], dict[str, Any], charts.Spec]:
    """Samples with what is copied in them, the table of what is new, and its chart."""
    answers, prompts = experiment.answers["answers"], experiment.answers["prompts"]
    writers = list(dict.fromkeys((one["model"], one["state"], one["temperature"]) for one in answers))
    of_writer = {
        writer: [one for one in answers if (one["model"], one["state"], one["temperature"]) == writer]
        for writer in writers
    }
    continuations = [[one["written"] for one in of_writer[writer]] for writer in writers]
    with open_train(experiment.path("clean"), experiment.path("tokens")) as train:
        *found, of_people = novelty([*continuations, _pieces(human.text())], train)
    by_writer = dict(zip(writers, found, strict=True))
    texts = [
        _sample(one, copies)
        for writer in reversed(writers)  # the whole GPT first
        for one, copies in zip(of_writer[writer], by_writer[writer].copies, strict=True)
    ]
    temperatures = sorted(
        {one["temperature"] for one in answers}, key=lambda t: (t != experiment.answers["temperature"], t)
    )
    page = {
        "intro": f"All models continue a prompt with the same random numbers. Marked: {COPIED} or more characters that "
        "stand in train, too; point at them for the work.",
        "lang": "ru" if experiment.cleaning["rule_set"] == "notes" else "und",
        "choices": [
            ("prompt", "Prompt", [(i, _shown(prompt)) for i, prompt in enumerate(prompts)]),
            ("temperature", "Temperature", [(t, t) for t in temperatures]),
        ],
        "texts": texts,
    }
    compared = [writer for writer in reversed(writers) if _is_compared(writer, writers[-1], experiment)]
    named = {_name(writer): by_writer[writer] for writer in compared}
    colours = {_name(writer): experiment.colour_of(*writer[:2]) for writer in compared} | {
        HUMAN: charts.COLOURS["counted"]
    }
    return page, _novelty(named, of_people), _seen_chart(named | {HUMAN: of_people}, colours)


def _novelty(by_name: dict[str, Novelty], of_people: Novelty) -> dict[str, Any]:
    rows = [
        [
            name,
            f"{found.longest.chars} ({work_label(found.longest.work)})" if found.longest else f"under {COPIED}",
            _percent(found.new_words),
            *(_percent(found.seen[n]) for n in (8, 16, 32)),
        ]
        for name, found in [*by_name.items(), (HUMAN, of_people)]
    ]
    return {
        "intro": "What a model writes is compared with held-out text that people wrote. More in train than theirs is "
        "copying; far more new words than theirs is noise.",
        "caption": "The share of all n-grams of a text that stand somewhere in train.",
        "header": ["text", "longest copy, characters", "new words", "8 in train", "16 in train", "32 in train"],
        "rows": rows,
    }


def _is_compared(writer: Writer, whole: Writer, experiment: Experiment) -> bool:
    """The whole GPT before training, and at every temperature after it; other trained models at that of the page."""
    model, state, temperature = writer
    if model == whole[0] and state in ("untrained", whole[1]):
        return True
    return state.startswith("trained") and temperature == experiment.answers["temperature"]


def _name(writer: Writer) -> str:
    model, state, temperature = writer
    return f"{model}, {state}, temperature {temperature}"


def _sample(one: dict[str, Any], copies: list[Copy]) -> dict[str, Any]:
    longest = max(copies, key=lambda copy: copy.chars, default=None)
    return {
        "key": f"{one['prompt']} {one['temperature']}",
        "title": f"{one['model']}, {one['state']}",
        "prompt": one["read"],
        "parts": list(_marked(one["written"], copies)),
        "note": f"longest copy: {longest.chars} characters of {work_label(longest.work)}" if longest else "",
    }


def _marked(text: str, copies: list[Copy]) -> Iterator[Part]:
    at = 0
    for copy in copies:
        yield text[at : copy.start], None
        yield text[copy.start : copy.stop], work_label(copy.work)
        at = copy.stop
    yield text[at:], None


def _pieces(text: str) -> list[str]:
    """The text, or evenly spaced pieces of it with MOST_HUMAN characters together."""
    if len(text) <= MOST_HUMAN:
        return [text]
    n, length = 20, MOST_HUMAN // 20
    return [text[start : start + length] for start in np.linspace(0, len(text) - length, n).astype(int).tolist()]


def _seen_chart(by_name: dict[str, Novelty], colours: dict[str, str]) -> charts.Spec:
    rows = [
        {"text": name, "colour": colours[name], "n": n, "share": share}
        for name, found in by_name.items()
        for n, share in found.seen.items()
        if share is not None
    ]
    return charts.seen(pd.DataFrame(rows))


def anatomy_of(experiment: Experiment, characters: Characters) -> tuple[dict[str, Any], dict[str, charts.Spec]]:
    """Bits per character of groups of characters, and the easiest and hardest passages."""
    scores = experiment.scores
    models = _models(experiment)
    nats = {model: scores.nats(model, SPLIT) for model in models}
    found = anatomy(characters, scores.works, nats)
    specs = {}
    labels = BY | {"author": experiment.result.author_word}
    for by in BY:
        if len(found[by]) > 1:
            kept = sorted(found[by], key=lambda group: -group.chars)[:MOST_GROUPS]
            rows = [
                {
                    "label": work_label(group.label),
                    "chars": group.chars,
                    "model": experiment.labels[model],
                    "colour": experiment.colours[model],
                    "bits": value,
                }
                for group in found[by]
                if group in kept
                for model, value in group.bits.items()
            ]
            specs[by] = charts.groups(pd.DataFrame(rows), labels[by], sort=by not in IN_ORDER)
    easiest, hardest = extremes(characters, nats["gpt"], N_EXTREMES)
    names = [work_label(work.name) for work in scores.works]
    page = {
        "intro": f"Which characters of {SPLIT} cost how many bits.",
        "choices": [("by", "By", [(by, labels[by]) for by in specs])],
        "caption": f"Point at a dot for the number of characters. Of more than {MOST_GROUPS} groups, the largest are "
        "shown.",
        "extremes": [
            (f"The {len(hardest)} passages that the GPT finds hardest", [_passage(each, names) for each in hardest]),
            (f"The {len(easiest)} that it finds easiest", [_passage(each, names) for each in easiest]),
        ],
    }
    return page, specs


def calibration(experiment: Experiment) -> tuple[dict[str, Any], charts.Spec]:
    """Whether the GPT is as often right as it is sure."""
    found = experiment.scores.about["calibration"][SPLIT]
    bins = found["bins"]
    sure, right = (
        sum(each[key] * each["predictions"] for each in bins) / sum(each["predictions"] for each in bins)
        for key in ("confidence", "right")
    )
    unit = experiment.table["window"]["unit"]
    intro = (
        f"Its likeliest {unit} follows in {_percent(right)} of all places of {SPLIT}; it gives it {_percent(sure)} on "
        f"average. The expected calibration error is {_percent(found['error'])}."
    )
    caption = "On the dashed line a model is as often right as it is sure. A larger dot stands for more predictions."
    return {"intro": intro, "caption": caption}, charts.reliability(pd.DataFrame(bins))


def _models(experiment: Experiment) -> list[str]:
    """The GPT, its network alone, and what is best of what is counted."""
    best = experiment.table["best_counted"]
    return ["gpt", *(["network"] if "network" in experiment.table else []), best]


def _passage(found: Extreme, names: list[str]) -> dict[str, Any]:
    levels = np.searchsorted(charts.LEVELS, found.bits, side="right").tolist()
    runs = itertools.groupby(zip(found.text, levels, strict=True), key=lambda pair: pair[1])
    parts = [("".join(char for char, _ in run), level) for level, run in runs]
    return {"bits": f"{found.bits.mean():.2f}", "work": names[found.work], "parts": parts}


def corpus(experiment: Experiment) -> tuple[dict[str, Any], dict[str, charts.Spec]]:
    """What the text is and how it was divided, with charts of its composition and its symbols."""
    cleaning, split, params = experiment.cleaning, experiment.split, experiment.params
    held_out = [name for name in split if name != "train"]
    rows = [["characters", *(f"{split[name]['chars']:,}" for name in split)]]
    for label, several in (
        ("author", f"{experiment.result.author_word}s"),
        ("category", "categories"),
        ("decade", "decades"),
    ):
        rows.append([f"distance of {several}", *(f"{split[name]['distance'][label]:.3f}" for name in split)])
    for n in split[held_out[0]]["in_train"]["after"] if held_out else ():
        shares = (_percent(split[name]["in_train"]["after"][n]) if name in held_out else "" for name in split)
        rows.append([f"windows of {n} that stand in train", *shares])
    sentences = [
        f"The longest passage of {name} that stands in train has {run['chars']} characters: "
        f"{work_label(run['work'])}, and {work_label(run['of_train'])} of train."
        for name in held_out
        if (run := split[name]["longest"]["after"])
    ]
    specs = _composition(experiment)
    names = {"author": experiment.result.author_word, "symbol": "symbol, of the whole text"}
    page = {
        "choices": [("part", "By", [(by, names.get(by, by)) for by in specs])],
        "intro": f"{cleaning['works']:,} works, {cleaning['chars']:,} characters and {cleaning['symbols']:,} symbols "
        f"after cleaning by the rules {cleaning['rule_set']}. Strategy {params.split.strategy}, duplicates "
        f"{params.split.duplicates}. Distances from the whole are between 0 and 1.",
        "header": ["of the text", *split],
        "rows": rows,
        "sentences": sentences,
    }
    return page, specs


def _composition(experiment: Experiment) -> dict[str, charts.Spec]:
    """The characters of each split by author, category and decade, and the most frequent symbols of the text."""
    split, specs = experiment.split, {}
    for by, table in (("author", "authors"), ("category", "categories"), ("decade", "decades")):
        sums = {name: _chars_by(by, part[table]) for name, part in split.items()}
        kept = [label for label, _ in sum(sums.values(), Counter()).most_common(MOST_GROUPS)]
        rows = [
            {
                "label": work_label(label),
                "split": name,
                "chars": sums[name][label],
                "share": sums[name][label] / part["chars"],
                "colour": charts.SPLITS[name],
            }
            for name, part in split.items()
            for label in kept
        ]
        if len(kept) > 1:
            specs[by] = charts.composition(pd.DataFrame(rows), by)
    symbols = islice(experiment.cleaning["alphabet"].items(), MOST_SYMBOLS)
    counted = [{"symbol": SIGNS.get(symbol) or visible(symbol), "chars": chars} for symbol, chars in symbols]
    specs["symbol"] = charts.symbols(pd.DataFrame(counted))
    return specs


def _chars_by(by: str, table: Any) -> Counter[str]:
    """Characters by label: an author may have rows in several categories."""
    sums: Counter[str] = Counter()
    for label, chars in table.items() if isinstance(table, dict) else ((row[by], row["chars"]) for row in table):
        sums[label] += chars
    return sums


def _shown(prompt: str) -> str:
    return prompt.replace("\n", "\\n")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"
