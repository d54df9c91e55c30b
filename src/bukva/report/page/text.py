"""Build five sections of the report page: samples, anatomy of the loss, online adaptation, calibration and corpus."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bukva.core.words import count
from bukva.report import charts
from bukva.report.page.anatomy import anatomy
from bukva.report.page.experiment import SPLIT, Experiment, work_label
from bukva.report.page.novelty import COPIED, LENGTHS, Copy, novelty, open_train
from bukva.report.terminal import percent

HUMAN = "people (val)"
MOST_HUMAN = 200_000  # maximum number of characters of val that the samples are compared with
N_PIECES = 20  # number of pieces of val, if val is longer than MOST_HUMAN
MOST_GROUPS = 40  # maximum number of groups in a chart


def samples(experiment: Experiment) -> dict[str, Any]:
    """Return the contents of the page section about samples.

    The section shows the samples and marks their copied passages. A table shows how much of the samples also occurs in
    the training split.
    """
    answers = experiment.read("answers")
    written, first = pd.DataFrame(answers["answers"]), answers["temperature"]
    by_writer = written.groupby(["model", "state", "temperature"], sort=False)
    with open_train(experiment.path("clean"), experiment.path("tokens")) as train:
        *of_writers, of_people = novelty([*by_writer["written"].agg(list), _pieces(experiment.characters.text)], train)
    rows, texts = [], []
    for ((model, state, temperature), answers_of_writer), new in zip(by_writer, of_writers, strict=True):
        if temperature == first:
            rows.append((f"{model}, {state}", new))
        records = answers_of_writer.to_dict("records")
        texts += [_sample(answer, copies) for answer, copies in zip(records, new.copies, strict=True)]
    return {
        "intro": "All models continue a prompt with the same random numbers. Highlighted passages of at least "
        f"{COPIED} characters also occur in the training split. Hover over a passage to see the work that contains it.",
        "lang": "ru" if experiment.read("cleaning")["rule_set"] == "notes" else "und",
        "choices": {
            f"{i} {temperature}": f"{prompt!r}, temperature {temperature}"
            for i, prompt in enumerate(answers["prompts"])
            for temperature in dict.fromkeys([first, *written["temperature"]])
        },
        "texts": texts[::-1],  # reversed, so that the complete GPT comes first
        "novelty": f"The table compares samples at temperature {first} with held-out text, which people wrote. If a "
        "model has a larger fraction of n-grams from train than this text, the model copies. If it has many more new "
        "words, it produces noise.",
        "header": ["text", "longest copy, characters", "new words", *(f"{n}-grams in train" for n in LENGTHS)],
        "rows": [
            [
                name,
                f"{new.longest.chars} ({work_label(new.longest.work)})" if new.longest else f"under {COPIED}",
                percent(new.new_words),
                *(percent(new.seen[n]) for n in LENGTHS),
            ]
            for name, new in [*rows[::-1], (HUMAN, of_people)]
        ],
    }


def _pieces(text: str) -> list[str]:
    """Return the pieces of held-out text with which the samples are compared."""
    if len(text) <= MOST_HUMAN:
        return [text]
    length = MOST_HUMAN // N_PIECES
    return [text[start : start + length] for start in np.linspace(0, len(text) - length, N_PIECES, dtype=int)]


def _sample(answer: dict[Any, Any], copies: list[Copy]) -> dict[str, Any]:
    longest = max(copies, key=lambda copy: copy.chars, default=None)
    return {
        "key": f"{answer['prompt']} {answer['temperature']}",
        "title": f"{answer['model']}, {answer['state']}",
        "prompt": answer["read"],
        "parts": list(_marked(answer["written"], copies)),
        "note": f"longest copy: {count(longest.chars, 'character')} of {work_label(longest.work)}" if longest else "",
    }


def _marked(text: str, copies: list[Copy]) -> Iterator[tuple[str, str | None]]:
    """Divide a text into copied passages and the parts between them."""
    at = 0
    for copy in copies:
        yield text[at : copy.start], None
        yield text[copy.start : copy.stop], work_label(copy.work)
        at = copy.stop
    yield text[at:], None


def anatomy_of(experiment: Experiment) -> dict[str, Any]:
    """Return the contents of the page section about the loss of groups of characters.

    The section has one chart per way of grouping, for example by author. Each chart shows the bits per character of the
    groups under the GPT and under the best n-gram model. For a GPT with n-grams, it also shows the GPT without them.
    """
    scores, characters = experiment.scores, experiment.characters
    network = ["network"] if "network" in experiment.table else []
    nats = {name: scores.nats(name, SPLIT) for name in ("gpt", *network, experiment.table["best_counted"])}
    tables = anatomy(characters, scores.works, nats)
    models = {name: experiment.rows[name].label for name in nats}
    specs = {}
    for by in ("position in the word", "class of character", "category", "author", "decade", "work"):
        groups = tables[by].loc[tables[by]["chars"].rank(method="first", ascending=False) <= MOST_GROUPS]
        if len(groups) > 1:
            shown = groups if by == "decade" else groups.sort_values("gpt")
            rows = shown.reset_index(names="label").melt(["label", "chars"], var_name="model", value_name="bits")
            rows["label"], rows["colour"] = rows["label"].map(work_label), rows["model"].map(experiment.colors)
            rows["model"] = rows["model"].map(models)
            label = experiment.result.author_word if by == "author" else by
            specs[label] = charts.dots(rows, charts.BITS, f"Bits per character by {label}.", "model")
    return {
        "intro": f"The average bits per character of different groups of characters of {SPLIT}.",
        "chart": specs,
        "caption": "Hover over a dot to see the number of characters. If there are more than "
        f"{MOST_GROUPS} groups, the chart shows the {MOST_GROUPS} largest.",
    }


def calibration(experiment: Experiment) -> dict[str, Any]:
    """Return the contents of the page section about calibration, with a chart of the GPT's accuracy by confidence."""
    measured = experiment.scores.about["calibration"][SPLIT]
    bins, unit = pd.DataFrame(measured["bins"]), experiment.table["window"]["unit"]
    sure, right = (np.average(bins[name], weights=bins["predictions"]) for name in ("confidence", "right"))
    return {
        "intro": f"The GPT's likeliest {unit} is correct in {percent(right)} of the predictions on {SPLIT}; its mean "
        f"probability is {percent(sure)}. The expected calibration error is {percent(measured['error'])}.",
        "caption": "On the dashed line, accuracy equals confidence. A larger dot means more predictions.",
        "chart": charts.reliability(bins),
    }


def corpus(experiment: Experiment, split: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of the page section about the corpus.

    The section shows the size of the corpus, a table of its splits, and charts of the composition of each split.

    Args:
        experiment: the result that the page describes.
        split: the content of reports/split.json.
    """
    cleaning, params, author = experiment.read("cleaning"), experiment.params, experiment.result.author_word
    held_out = [name for name in split if name != "train"]
    rows = [["characters", *(f"{split[name]['chars']:,}" for name in split)]]
    seen = {name: split[name]["in_train"] for name in held_out}
    # older results have two tables, for the text before and after the removal of duplicates
    seen = {name: lengths.get("after", lengths) for name, lengths in seen.items()}
    for n in seen[held_out[0]] if held_out else ():
        shares = (percent(seen[name][n]) if name in held_out else "" for name in split)
        rows.append([f"windows of {n} characters that occur in train", *shares])
    return {
        "intro": f"{count(cleaning['works'], 'work')}, {count(cleaning['chars'], 'character')} and "
        f"{count(cleaning['symbols'], 'different character')} after cleaning with the "
        f"rule set {cleaning['rule_set']}. Split parameters: "
        f"strategy={params.split.strategy}, duplicates={params.split.duplicates}.",
        "header": ["measure", *split],
        "rows": rows,
        "chart": {
            word: spec
            for by, table, word in (
                ("author", "authors", author), ("category", "categories", "category"), ("decade", "decades", "decade")
            )
            if (spec := _composition(split, by, table, word))
        },
    }  # fmt: skip


def _composition(split: dict[str, Any], by: str, table: str, word: str) -> charts.Spec | None:
    """Draw the composition of each split by author, category or decade."""
    chars = pd.DataFrame({name: _chars_by(by, part[table]) for name, part in split.items()}).fillna(0)
    if len(chars) == 1:
        return None
    kept = chars.loc[chars.sum(axis=1).nlargest(MOST_GROUPS).index]
    rows = kept.reset_index(names="label").melt("label", var_name="split", value_name="chars")
    rows["label"], rows["colour"] = rows["label"].map(work_label), rows["split"].map(charts.SPLITS)
    rows["share"] = rows["chars"] / rows["split"].map({name: part["chars"] for name, part in split.items()})
    return charts.composition(rows, word)


def _chars_by(by: str, table: Any) -> pd.Series:
    """Return the number of characters of each group, by the name of the group."""
    return pd.Series(table) if isinstance(table, dict) else pd.DataFrame(table).groupby(by)["chars"].sum()
