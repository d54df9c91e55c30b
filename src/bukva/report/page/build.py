"""Build two kinds of HTML pages: the report of one result, and the overview of all experiments."""

import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

import pandas as pd

from bukva.compare.leaderboard import SPLIT, Leaderboard, leaderboard
from bukva.compare.ledger import read_ledger
from bukva.compare.results import default_baseline
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, sha256, write_text
from bukva.core.words import count
from bukva.project.revisions import WORKSPACE
from bukva.project.stages import trained_models
from bukva.report import charts, judge
from bukva.report import leaderboard as board_text
from bukva.report.comparison import score_of
from bukva.report.page import results, text
from bukva.report.page.experiment import Experiment
from bukva.report.page.render import render
from bukva.report.page.results import Card, accuracy_cards, uncertainty_card
from bukva.text.ids import bits

STUDY = Path("reports/attention/attention.json")
NOT_STUDIED = (
    "The attention of this GPT has not been studied. Run `bukva attention` to study the GPT of the last run (this "
    "takes half a minute). To study another experiment, run `dvc exp apply` first."
)
OVERVIEW = "experiments.html"  # file name; in the same folder as the page of the last run
MODEL = "gpt"


def build(path: Path) -> list[Path]:
    """Write the page of the last run to `path`, and the page of all experiments to the same folder.

    If the baseline has no result, the page of all experiments is not written. In this case, the reason is printed, and
    an earlier version of the page is deleted. Each page is self-contained: it needs no other file and no network.

    Raises:
        BukvaError: the pipeline has not run. The message names the missing file.
    """
    overview_path = path.with_name(OVERVIEW)
    links = [(OVERVIEW, "Experiments"), (path.name, "The last run")]
    try:
        write_text(overview_path, overview(links, here=OVERVIEW))
    except BukvaError as error:
        print(f"{overview_path} was not written. {error}", file=sys.stderr)
        overview_path.unlink(missing_ok=True)
    pages = [overview_path] if overview_path.exists() else []
    write_text(path, page_of(WORKSPACE, links if pages else [], here=path.name))
    return [path, *pages]


def page_of(name: str, links: Sequence[tuple[str, str]], *, here: str = "", served: bool = False) -> str:
    """Return the report page of one result as HTML.

    Args:
        name: an experiment, a branch, a tag, a commit, or "workspace" for the last run.
        links: the pages in the navigation, each as (URL, title).
        here: the URL of this page, if it is one of `links`.
        served: whether the web server sends the page (see `render`).

    Raises:
        BukvaError: the name is unknown, or its revision has no result. The message says what to do.
    """
    with Experiment.opened(name) as experiment:
        score = experiment.table[MODEL][SPLIT]["bits_per_char"]
        chars = experiment.read("cleaning")["chars"]
        params, unit = experiment.result.params, experiment.table["window"]["unit"]
        model = params["model"]
        weights = experiment.folder / trained_models()[MODEL].folder / "best.safetensors"
        return render(
            "experiment.html.j2",
            title=f"{experiment.name}: {score:.3f} bits per character on {SPLIT}",
            subtitle=f"{params['download']['corpus']}, {count(chars, 'character')}; "
            f"{count(model['n_layer'], 'layer')}, {count(model['n_head'], 'head')}, {model['n_embd']} channels, block "
            f"of {model['block_size']} {unit}s, n-grams: {model['ngrams']}",
            links=links,
            here=here,
            served=served,
            cards=results.cards(experiment),
            verdict=results.verdict(experiment),
            losses=results.losses(experiment),
            samples=text.samples(experiment),
            predictors=results.predictors(experiment),
            attention=attention(sha256(weights)),
            not_studied=NOT_STUDIED,
            corpus=text.corpus(experiment, experiment.read("split_report")),
            lineage=results.lineage(experiment),
        )


def attention(model: str) -> dict[str, Any]:
    """Return what `bukva attention` wrote for the page, or {} if it studied no GPT whose weights have this digest."""
    file = project_root() / STUDY
    study = read_json(file) if file.exists() else {}
    return dict(study.get("page", {})) if study.get("digest") == model else {}


def overview(links: Sequence[tuple[str, str]], *, here: str = "/", served: bool = False) -> str:
    """Return the page of all experiments as HTML. If it is `served`, it links to the report of each experiment.

    Raises:
        BukvaError: the baseline has no result. The message says what to do.
    """
    board = leaderboard(default_baseline(), MODEL)
    ranked = [row for row in board.texts[0].to_dict("records") if not row["refusal"]]
    best, name = ranked[0]["setting"], board.baseline.name
    baseline = "the baseline" if name == "baseline" else f"the baseline, {name}"
    many = f"Best of {len(ranked)}: " if len(ranked) > 1 else ""
    return render(
        "experiments.html.j2",
        title=f"{many}{best.name}, {score_of(best, SPLIT)} bits per character on {SPLIT}",
        subtitle=f"Sorted by the score on {SPLIT}, best first. Each verdict compares a setting with {baseline}.",
        links=links,
        here=here,
        served=served,
        split=SPLIT,
        cards=_cards(board, ranked[0]),
        texts=[_text(board, rows, served=served) for rows in board.texts],
        sentences=board_text.sentences(board),
        tries=judged_tries(),
    )


def judged_tries() -> dict[str, Any] | None:
    """Return a `chart` of the tries that `bukva judge` has decided, and a `sentence` about them, or None."""
    ledger = read_ledger()
    if not ledger or not ledger.decided:
        return None
    return {"chart": judge.chart(ledger), "sentence": judge.sentence(ledger)}


def _cards(board: Leaderboard, best: Mapping[Hashable, Any]) -> list[Card]:
    mean = fmean(best[SPLIT])
    difference, verdict = board_text.verdict_of(best, board)
    name = board.baseline.name
    gain = f"bits compared with {name}" if difference else f"{name} itself is the best"
    return [
        Card("Best score", f"{mean:.3f}", f"bits per character on {SPLIT}, by {best['setting'].name}"),
        uncertainty_card(mean),
        *accuracy_cards(best["setting"].result.metrics[MODEL].get("accuracy")),
        Card("Against the baseline", difference or f"{mean:.3f}", gain, verdict),
    ]


def _text(board: Leaderboard, rows: pd.DataFrame, *, served: bool) -> dict[str, Any]:
    """Return the table and the charts of the settings that were scored on one text."""
    lines = board_text.as_text(board, rows)
    for line in lines:
        line["names"] = [(name, f"/runs/{quote(name)}" if served else "") for name in line["names"]]
    return {
        "name": board_text.text_name(rows),
        "best": "" if lines[0]["verdict"] else board_text.best_of(rows),
        "rows": lines,
        "scores": _scores(rows),
        "losses": _losses(rows),
    }


def _scores(rows: pd.DataFrame) -> charts.Spec:
    """Draw the scores of settings, with one line per setting and one dot per seed."""
    points = pd.DataFrame(
        {
            "label": rows["setting"].map(lambda setting: setting.name),
            "changed": rows["changed"].map(lambda changed: ", ".join(f"{key}={each}" for key, each in changed.items())),
            "seed": rows["seeds"],
            "colour": charts.GPT_COLOR,
            "bits": rows[SPLIT],
        }
    ).explode(["seed", "bits"])
    return charts.dots(
        points, f"{charts.BITS} on {SPLIT}", f"Scores of {count(len(rows), 'setting')} on {SPLIT}, by seed."
    )


def _losses(rows: pd.DataFrame) -> dict[str, charts.Spec]:
    """Return two charts of the loss curves of the best settings."""
    # zip stops at the last color, so a chart has at most len(charts.SERIES) settings
    points = pd.DataFrame(
        {"model": setting.name, "colour": color, "split": SPLIT, "step": step, "chars": chars, "bits": bits(nats)}
        for setting, color in zip(rows["setting"], charts.SERIES, strict=False)
        for step, chars, nats in setting.result.curves[MODEL]
    )
    return {title: charts.curves(points, x, title) for x, title in results.AXES.items()}
