"""Build two sections of the report page: samples and corpus."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from bukva.core.words import count
from bukva.report import charts
from bukva.report.page.experiment import Experiment, work_label
from bukva.report.page.novelty import COPIED, LENGTHS, Copy, Novelty, novelty, read_train
from bukva.report.terminal import percent

HUMAN = "people (val)"
MOST_HUMAN = 200_000  # maximum number of characters of val that the samples are compared with
N_PIECES = 20  # number of pieces of val, if val is longer than MOST_HUMAN
MOST_GROUPS = 40  # maximum number of groups in a chart


# ---- samples


def samples(experiment: Experiment) -> dict[str, Any]:
    """Return all samples with their copied passages, and a table that compares the writers with people."""
    answers = experiment.read("answers")
    temperature = answers["temperature"]
    writers: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for answer in answers["answers"]:
        writers.setdefault((answer["model"], answer["state"], answer["temperature"]), []).append(answer)
    texts = [[answer["written"] for answer in of_writer] for of_writer in writers.values()]
    train = read_train(experiment.path("clean"), experiment.path("tokens"))
    *measured, of_people = novelty([*texts, _pieces(experiment.characters.text)], train)
    shown = [
        _sample(answer, copies)
        for of_writer, found in zip(writers.values(), measured, strict=True)
        for answer, copies in zip(of_writer, found.copies, strict=True)
    ]
    rows = [
        _row(f"{model}, {state}", found)
        for (model, state, of_writer), found in zip(writers, measured, strict=True)
        if of_writer == temperature
    ]
    return {
        "intro": "All models continue a prompt with the same random numbers. Highlighted passages of at least "
        f"{COPIED} characters also occur in the training split. Hover over a passage to see the work that contains it.",
        "lang": "ru" if experiment.read("cleaning")["rule_set"] == "notes" else "und",
        "choices": {
            f"{i} {each}": f"{prompt!r}, temperature {each}"
            for i, prompt in enumerate(answers["prompts"])
            for each in dict.fromkeys([temperature, *(temperature for _, _, temperature in writers)])
        },
        "texts": shown[::-1],  # reversed, so that the complete GPT comes first
        "novelty": f"The table compares samples at temperature {temperature} with held-out text, which people wrote. "
        "If a model has a larger fraction of n-grams from train than this text, the model copies. If it has many more "
        "new words, it produces noise.",
        "header": ["text", "longest copy, characters", "new words", *(f"{n}-grams in train" for n in LENGTHS)],
        "rows": [*rows[::-1], _row(HUMAN, of_people)],
    }


def _pieces(text: str) -> list[str]:
    """Return the pieces of held-out text with which the samples are compared."""
    if len(text) <= MOST_HUMAN:
        return [text]
    length = MOST_HUMAN // N_PIECES
    return [text[start : start + length] for start in np.linspace(0, len(text) - length, N_PIECES, dtype=int)]


def _row(name: str, found: Novelty) -> list[str]:
    copy = found.longest
    longest = f"{copy.chars} ({work_label(copy.work)})" if copy else f"under {COPIED}"
    return [name, longest, percent(found.new_words), *(percent(found.seen[n]) for n in LENGTHS)]


def _sample(answer: dict[str, Any], copies: list[Copy]) -> dict[str, Any]:
    longest = max(copies, key=lambda copy: copy.chars, default=None)
    return {
        "key": f"{answer['prompt']} {answer['temperature']}",
        "title": f"{answer['model']}, {answer['state']}",
        "prompt": answer["read"],
        "parts": list(_marked(answer["written"], copies)),
        "note": f"longest copy: {count(longest.chars, 'character')} of {work_label(longest.work)}" if longest else "",
    }


def _marked(text: str, copies: list[Copy]) -> Iterator[tuple[str, str | None]]:
    """Divide a text into copied passages, with the name of their work, and the parts between them, with None."""
    at = 0
    for copy in copies:
        yield text[at : copy.start], None
        yield text[copy.start : copy.stop], work_label(copy.work)
        at = copy.stop
    yield text[at:], None


# ---- corpus


def corpus(experiment: Experiment, split: dict[str, Any]) -> dict[str, Any]:
    """Return a table of the splits, and charts of their composition, from the content of reports/split.json."""
    cleaning, author = experiment.read("cleaning"), experiment.result.author_word
    chosen = experiment.result.params["split"]  # not parsed, because older results have other parameters
    # older results have two tables, for the text before and after the removal of duplicates
    seen = {name: part["in_train"].get("after", part["in_train"]) for name, part in split.items() if name != "train"}
    rows = [["characters", *(f"{part['chars']:,}" for part in split.values())]]
    for n in next(iter(seen.values()), {}):
        shares = (percent(seen[name][n]) if name in seen else "" for name in split)
        rows.append([f"windows of {n} characters that occur in train", *shares])
    authors, categories = _composition(split, "authors", "author"), _composition(split, "categories", "category")
    return {
        "intro": f"{count(cleaning['works'], 'work')}, {count(cleaning['chars'], 'character')} and "
        f"{count(cleaning['symbols'], 'different character')} after cleaning with the "
        f"rule set {cleaning['rule_set']}. Split parameters: "
        f"strategy={chosen['strategy']}, duplicates={chosen['duplicates']}.",
        "header": ["measure", *split],
        "rows": rows,
        "chart": {
            word: charts.composition(rows, word)
            for word, rows in ((author, authors), ("category", categories))
            if rows["label"].nunique() > 1
        },
    }


def _composition(split: dict[str, Any], table: str, by: str) -> pd.DataFrame:
    """Return the characters of the largest authors or categories, and their share, with a row for each split."""
    chars = pd.DataFrame({name: pd.DataFrame(part[table]).groupby(by)["chars"].sum() for name, part in split.items()})
    kept = chars.fillna(0).loc[chars.sum(axis=1).nlargest(MOST_GROUPS).index]
    rows = kept.reset_index(names="label").melt("label", var_name="split", value_name="chars")
    rows["label"], rows["colour"] = rows["label"].map(work_label), rows["split"].map(charts.SPLITS)
    rows["share"] = rows["chars"] / rows["split"].map({name: part["chars"] for name, part in split.items()})
    return rows
