"""Build the headline numbers and the sections of the page about one result."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from bukva.compare.comparison import compare
from bukva.compare.groups import training_seconds
from bukva.compare.results import Result, as_checkout, default_baseline, read_results
from bukva.compare.statistics.text import N_SEGMENTS, Units, over_text
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.core.params import PARAMS, flatten
from bukva.core.words import count
from bukva.project.baseline import SPLIT
from bukva.project.commands import settings
from bukva.project.curves import read_curve
from bukva.project.lock import parse_yaml
from bukva.project.revisions import file_at, git, head, resolve
from bukva.project.stages import paths, trained_models
from bukva.report import charts, comparison
from bukva.report.novelty import COPIED, LENGTHS, Copy, Novelty, longest, novelty
from bukva.report.terminal import better_or_worse, cells, headline, percent, signed
from bukva.scoring.char_scores import CharScores, files_of
from bukva.scoring.metrics import METRICS
from bukva.scoring.rows import Row, rows_of
from bukva.text.collection import MISSING
from bukva.text.ids import bits, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.tracking.record import seconds_of_models

# names in dvc.yaml of the outputs that a report page needs
NEEDED = ("score_table", "scores", "split", "tokens", "clean", "cleaning", "split_report", "answers")
Card = tuple[str, str, str, str]  # a headline number: its name, its value, a short explanation, and a verdict or ""


class Experiment(NamedTuple):
    """A result, and the content of the files of which its page is made."""

    name: str  # title on pages
    result: Result
    folder: Path  # contains the outputs at their paths in dvc.yaml
    table: dict[str, Any]  # reports/scores.json
    rows: dict[str, Row]  # scores of each model and baseline, by key in `table`; the best score on SPLIT comes first
    colors: dict[str, str]  # of each model and baseline on all charts, by the same key
    scores: CharScores
    text: str  # the scored characters of SPLIT
    curves: dict[str, pd.DataFrame]  # loss curve of each model (see read_curve)
    seconds: dict[str, float | None]  # duration of the training of each model, if it is known
    cleaning: dict[str, Any]  # reports/cleaning.json
    answers: dict[str, Any]  # data/samples.json


@contextlib.contextmanager
def opened(name: str) -> Iterator[Experiment]:
    """Open the result of an experiment, a branch, a tag, a commit, or "workspace" for a `with` block.

    BukvaError: the name is unknown, or a file is missing.
    """
    [result] = read_results([resolve(name)])
    models = trained_models()
    curves = [model.curve.as_posix() for model in models.values()]
    with as_checkout(result, {*(paths()[each] for each in NEEDED), *curves}) as folder:
        files = {each: folder / paths()[each] for each in NEEDED}
        if missing := [paths()[each] for each, file in files.items() if not file.exists()]:
            raise BukvaError(f"{missing[0]} does not exist. Run `make repro` to create it.")
        table = read_json(files["score_table"])
        rows = sorted(rows_of(table, models), key=lambda row: row.bits[SPLIT])
        yield Experiment(
            name="The last run" if result.revision.is_workspace else result.revision.name,
            result=result,
            folder=folder,
            table=table,
            rows={row.key: row for row in rows},
            colors={row.key: charts.MODELS.get(row.key, charts.COLORS[row.kind]) for row in rows},
            scores=CharScores.read(files_of(files["scores"])),
            text=scored_text(files["split"], files["tokens"]),
            curves={
                model: pd.DataFrame(read_curve((folder / about.curve).read_text())) for model, about in models.items()
            },
            seconds={model: training_seconds(result, model, seconds_of_models(model)) for model in models},
            cleaning=read_json(files["cleaning"]),
            answers=read_json(files["answers"]),
        )


def scored_text(split: Path, tokens: Path) -> str:
    """Return the (N,) scored characters of SPLIT from the outputs of stages split and tokenize."""
    return load_tokenizer(tokens).decode(load_splits(split)[SPLIT])[1:]  # the first character has no context


def work_label(name: str) -> str:
    """Return the name of a work without the placeholders for missing parts, such as an unknown author."""
    return name.replace(f"{MISSING}/", "")


# ---- headline numbers


def cards(experiment: Experiment) -> list[Card]:
    gpt, counted = experiment.rows["gpt"], experiment.rows[experiment.table["best_counted"]]
    low, high = _interval(experiment, "gpt")
    gain = gpt.bits[SPLIT] - counted.bits[SPLIT]
    interval = f"; 95 % interval {low:.3f} to {high:.3f}" if low < high else ""
    word = next(word for word in ("better", "worse", "as good as") if word in better_or_worse(gain))
    parameters, updates, _, time = _cost(experiment, "gpt")
    return [
        *score_cards("Score", gpt.bits[SPLIT], interval, gpt.metrics),
        ("Against counting", signed(gain), f"bits compared with the best n-gram model ({counted.label})", word),
        ("Training", time, f"for {updates} of {parameters}", ""),
    ]


def score_cards(name: str, score: float, details: str, scores: Mapping[str, float]) -> list[Card]:
    """Return cards that explain a score in bits per character, and a card for each of METRICS in `scores`."""
    return [
        (name, f"{score:.3f}", f"bits per character on {SPLIT}{details}", ""),
        ("As uncertain as", f"1 in {2**score:.1f}", "a guess among this many equally likely characters", ""),
        *(
            (metric.label.capitalize(), metric.show(scores[key]), metric.meaning, "")
            for key, metric in METRICS.items()
            if key in scores
        ),
    ]


def _interval(experiment: Experiment, key: str) -> tuple[float, float]:
    """Return the 95 % interval of a score. It is empty if the text is too short, or has no score per character."""
    scored, own = experiment.scores.chars[SPLIT], experiment.rows[key].bits[SPLIT]
    if scored.sum() < N_SEGMENTS or f"{key}/{SPLIT}.npy" not in experiment.scores.files:
        return own, own
    units = Units.of(scored)
    return over_text(units.sums(experiment.scores.nats(key, SPLIT)), units).interval


def _cost(experiment: Experiment, model: str) -> tuple[str, str, str, str]:
    """Return the size of a model and the cost of its training as text: parameters, updates, characters seen, time."""
    n, seconds = experiment.scores.about["models"][model]["parameters"], experiment.seconds[model]
    last = experiment.curves[model].iloc[-1]
    updates, chars = f"{last['step']:,.0f} updates", f"{last['chars_seen']:,.0f} characters seen"
    return f"{n:,} parameters", updates, chars, "unknown time" if seconds is None else f"{seconds:,.0f} s"


# ---- verdict


def verdict(experiment: Experiment) -> dict[str, Any]:
    """Return a headline, a sample, the scores of all models, and the comparison with the baseline."""
    splits, answers = list(experiment.table["gpt"]), experiment.answers
    of_gpt = {"model": trained_models()["gpt"].label, "state": "trained", "temperature": answers["temperature"]}
    sample = [answer for answer in answers["answers"] if of_gpt.items() <= answer.items()][-1]
    scores = []
    for key, row in experiment.rows.items():
        (low, high), own = _interval(experiment, key), row.bits[SPLIT]
        label = f"{own:z.3f} {row.label}"
        scores.append({"label": label, "colour": experiment.colors[key], "bits": own, "low": low, "high": high})
    return {
        "headline": headline(experiment.table),
        "prompt": sample["read"].lstrip(),
        "written": sample["written"][:300],
        "header": ["model", *splits],
        "rows": [[row.label, *cells(row, splits)] for row in experiment.rows.values()],
        "chart": charts.scores(pd.DataFrame(scores)),
        "baseline": _against_baseline(experiment.result),
    }


def _against_baseline(result: Result) -> dict[str, Any]:
    baseline = default_baseline()
    try:
        if read_results([resolve(baseline)])[0].lock == result.lock:
            return {}
        [compared] = compare([baseline, result.revision.name], "gpt", SPLIT)
    except BukvaError as error:
        return {"verdict": "not compared", "sentences": [str(error)]}
    return {"verdict": compared.verdict.verdict, "sentences": comparison.sentences(compared)}


# ---- losses


def losses(experiment: Experiment) -> dict[str, charts.Spec]:
    of_models = (
        (trained_models()[name].label, experiment.colors[name], curve) for name, curve in experiment.curves.items()
    )
    return charts.curves(of_models, ["val", "train"])


# ---- samples

MOST_HUMAN = 200_000  # maximum number of characters of val that the samples are compared with
N_PIECES = 20  # number of pieces of val, if val is longer than MOST_HUMAN


def samples(experiment: Experiment) -> dict[str, Any]:
    """Return all samples with their copied passages, and a table that compares the writers with people."""
    answers, default = experiment.answers, experiment.answers["temperature"]
    writers: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for answer in answers["answers"]:
        writers.setdefault((answer["model"], answer["state"], answer["temperature"]), []).append(answer)
    written = [[answer["written"] for answer in of_writer] for of_writer in writers.values()]
    human, length = [experiment.text], MOST_HUMAN // N_PIECES
    if len(experiment.text) > MOST_HUMAN:
        starts = np.linspace(0, len(experiment.text) - length, N_PIECES, dtype=int)
        human = [experiment.text[start : start + length] for start in starts]
    clean, tokens = (experiment.folder / paths()[each] for each in ("clean", "tokens"))
    *measured, of_people = novelty([*written, human], clean, tokens)
    shown, rows = list[dict[str, Any]](), list[list[str]]()
    for ((model, state, temperature), of_writer), found in zip(writers.items(), measured, strict=True):
        shown += [_sample(answer, copies) for answer, copies in zip(of_writer, found.copies, strict=True)]
        if temperature == default:
            rows.append(_row(f"{model}, {state}", found))
    return {
        "copied": COPIED,
        "temperature": default,
        "lang": "ru" if experiment.cleaning["rule_set"] == "notes" else "und",
        "choices": {
            f"{i} {each}": f"{prompt!r}, temperature {each}"
            for i, prompt in enumerate(answers["prompts"])
            for each in dict.fromkeys([default, *(temperature for _, _, temperature in writers)])
        },
        "texts": shown[::-1],  # reversed, so that the complete GPT comes first
        "header": ["text", "longest copy, characters", "new words", *(f"{n}-grams in train" for n in LENGTHS)],
        "rows": [*rows[::-1], _row("people (val)", of_people)],
    }


def _row(name: str, found: Novelty) -> list[str]:
    copy = longest(copy for copies in found.copies for copy in copies)
    copied = f"{copy.chars} ({work_label(copy.work)})" if copy else f"under {COPIED}"
    return [name, copied, percent(found.new_words), *map(percent, found.seen.values())]


def _sample(answer: dict[str, Any], copies: list[Copy]) -> dict[str, Any]:
    copy, text, at, parts = longest(copies), answer["written"], 0, list[tuple[str, str]]()
    for start, stop, work in copies:
        parts += [(text[at:start], ""), (text[start:stop], work_label(work))]
        at = stop
    return {
        "key": f"{answer['prompt']} {answer['temperature']}",
        "title": f"{answer['model']}, {answer['state']}",
        "prompt": answer["read"],
        "parts": [*parts, (text[at:], "")],
        "note": f"longest copy: {count(copy.chars, 'character')} of {work_label(copy.work)}" if copy else "",
    }


# ---- the best n-gram model and the network, on each character

PASSAGE = 600  # characters of the passage that is shown
LEADS = (-3, -1, 1, 3)  # limits of the colors of a character: bits by which learning beats counting
CLASSES = np.array(["counted2", "counted1", "", "learned1", "learned2"])  # CSS classes of the ranges between LEADS


def predictors(experiment: Experiment) -> dict[str, Any]:
    """Compare the best n-gram model with the network, which is the GPT without its n-grams, on each character."""
    scores, counted = experiment.scores, experiment.table["best_counted"]
    learned = "network" if "network" in experiment.table else "gpt"
    labels = {name: experiment.rows[name].label for name in (counted, learned, "gpt")}
    model = "The GPT" if learned == "gpt" else "The GPT without its n-grams"
    nats = {name: scores.nats(name, SPLIT) for name in labels}
    lead = bits(1.0) * (nats[counted].astype(np.float64) - nats[learned])
    worse_than_chance = np.minimum(nats[counted], nats[learned]) > np.log(experiment.cleaning["symbols"])
    lead[worse_than_chance] = np.nan
    better, worse, below = (float(np.mean(each)) for each in (lead >= 0, lead < 0, np.isnan(lead)))
    work, shown = passage(experiment.text, scores.chars[SPLIT])
    costs = pd.DataFrame({label: bits(1.0) * nats[name][shown] for name, label in labels.items()})
    notes = [", ".join(f"{label} {cost:.2f}" for label, cost in row.items()) for row in costs.to_dict("records")]
    classes = np.where(np.isnan(lead), "neither", CLASSES[np.digitize(lead, LEADS)])[shown].tolist()
    return {
        "intro": f"{model} gave {percent(better)} of the characters of {SPLIT} a higher probability than the best "
        f"n-gram model ({labels[counted]}). The n-gram model gave {percent(worse)} a higher probability. For the "
        f"remaining {percent(below)}, both were worse than chance.",
        "work": work_label(scores.works[work].name),
        "parts": list(zip(experiment.text[shown], classes, notes, strict=True)),
    }


def passage(text: str, chars: npt.NDArray[np.int64]) -> tuple[int, slice]:
    """Return the index of the longest work, and a passage of it; `chars` is the number of characters of each work."""
    work = int(chars.argmax())
    start, n = int(chars[:work].sum()), int(chars[work])
    first = text.find("\n", start, start + n // 2) + 1 or start  # the first line may be incomplete
    return work, slice(first, min(first + PASSAGE, start + n))


# ---- corpus

MOST_GROUPS = 40  # maximum number of groups in a chart


def corpus(experiment: Experiment) -> dict[str, Any]:
    """Return a table of the splits, and charts of their composition."""
    cleaning, author = experiment.cleaning, experiment.result.author_word
    split: dict[str, Any] = read_json(experiment.folder / paths()["split_report"])
    chosen = experiment.result.params["split"]
    rows = [["characters", *(f"{part['chars']:,}" for part in split.values())]]
    for n in split[SPLIT]["in_train"]:
        shares = (percent(part["in_train"][n]) if name != "train" else "" for name, part in split.items())
        rows.append([f"windows of {n} characters that occur in train", *shares])
    composed = {author: _composition(split, "authors", "author")}
    composed["category"] = _composition(split, "categories", "category")
    return {
        "intro": f"{count(cleaning['works'], 'work')}, {count(cleaning['chars'], 'character')} and "
        f"{count(cleaning['symbols'], 'different character')} after cleaning with the rule set {cleaning['rule_set']}. "
        f"Split parameters: strategy={chosen['strategy']}, duplicates={chosen['duplicates']}.",
        "header": ["measure", *split],
        "rows": rows,
        "chart": {
            word: charts.composition(rows, word) for word, rows in composed.items() if rows["label"].nunique() > 1
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


# ---- cost and lineage


def lineage(experiment: Experiment) -> dict[str, Any]:
    """Return a table of costs, commit and changed parameters, and the `commands` that reproduce the result."""
    revision, params = experiment.result.revision, experiment.result.params
    commit = revision.baseline or revision.commit or head()
    committed = parse_yaml(file_at(commit, PARAMS).decode())
    ours, theirs = flatten(params), flatten(committed)
    changes = ["diff", "--name-only", commit, revision.commit] if revision.commit else ["status", "--porcelain"]
    edited = git(*changes, "--", "src", "stages", "dvc.yaml", "numerics.lock")
    run = " ".join(["dvc exp run", *settings(committed, params)]) if ours != theirs else "make repro"
    models = trained_models().values()
    rows = [[f"training of the {model.label}", ", ".join(_cost(experiment, model.name))] for model in models]
    rows.append(["commit", f"{commit or 'unknown'}, {'with' if edited else 'without'} changes to the code"])
    changed = {key: value for key, value in ours.items() if value != theirs.get(key)}
    rows += [[key, f"{value} (in the commit: {theirs.get(key)})"] for key, value in changed.items()]
    return {"rows": rows, "commands": f"git checkout {commit}\n{run}"}
