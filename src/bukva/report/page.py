"""Build two kinds of HTML pages: the report of one result, and the overview of all experiments."""

import functools
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import vl_convert
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from bukva.compare.comparison import Leaderboard, Row, leaderboard
from bukva.compare.judge import read_ledger
from bukva.compare.results import default_baseline
from bukva.compare.statistics.settings import MATTERS
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.words import count
from bukva.project.baseline import SPLIT
from bukva.project.revisions import WORKSPACE
from bukva.project.stages import paths, trained_models
from bukva.report import charts, judge, sections
from bukva.report import leaderboard as board_text
from bukva.report.comparison import score_of

PACKAGE = "bukva.report"
EXPOSE = "window.vegaEmbed = vegaEmbed;\n"  # makes vegaEmbed of the Vega-Lite bundle available to page.js
OVERVIEW = "experiments.html"  # file name; in the same folder as the page of the last run
MODEL = "gpt"


def build(path: Path) -> list[Path]:
    """Write the page of the last run to `path`, and the page of all experiments to the same folder.

    Each page needs no other file and no network. Without a baseline, the reason is printed, and the page of all
    experiments is deleted. BukvaError: the pipeline has not run.
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
    """Return the report page of one result as HTML. `name` is a revision, or "workspace" for the last run.

    The navigation has `links`, each as (URL, title), of which `here` is this page. `served` is explained at `render`.
    BukvaError: the name is unknown, or its revision has no result.
    """
    with sections.opened(name) as experiment:
        params, unit = experiment.result.params, experiment.table["window"]["unit"]
        model, chars = params["model"], experiment.cleaning["chars"]
        return render(
            "experiment.html.j2",
            title=f"{experiment.name}: {experiment.rows[MODEL].bits[SPLIT]:.3f} bits per character on {SPLIT}",
            subtitle=f"{params['download']['corpus']}, {count(chars, 'character')}; "
            f"{count(model['n_layer'], 'layer')}, {count(model['n_head'], 'head')}, {model['n_embd']} channels, block "
            f"of {model['block_size']} {unit}s, n-grams: {model['ngrams']}",
            links=links,
            here=here,
            served=served,
            cards=sections.cards(experiment),
            verdict=sections.verdict(experiment),
            losses=sections.losses(experiment),
            samples=sections.samples(experiment),
            predictors=sections.predictors(experiment),
            attention=attention(experiment),
            corpus=sections.corpus(experiment),
            lineage=sections.lineage(experiment),
        )


def attention(experiment: sections.Experiment) -> dict[str, charts.Spec]:
    """Return the attention maps of the GPT of the last run, by name of the head. Other experiments have none.

    Their n-grams would have to be counted first, which can take minutes.
    """
    if not experiment.result.revision.is_workspace:
        return {}
    from bukva.report.attention import maps  # imports torch

    _, shown = sections.passage(experiment.text, experiment.scores.chars[SPLIT])
    folder = experiment.folder
    return maps(folder / trained_models()[MODEL].folder, folder / paths()["ngrams"], experiment.text[shown])


def overview(links: Sequence[tuple[str, str]], *, here: str = "/", served: bool = False) -> str:
    """Return the page of all experiments as HTML. If it is `served`, it links to the report of each experiment.

    BukvaError: the baseline has no result.
    """
    board = leaderboard(default_baseline(), MODEL)
    ranked = [row for row in board.texts[0] if not row.refusal]
    best, name = ranked[0].setting, board.baseline.name
    many = f"Best of {len(ranked)}: " if len(ranked) > 1 else ""
    return render(
        "experiments.html.j2",
        title=f"{many}{best.name}, {score_of(best, SPLIT)} bits per character on {SPLIT}",
        subtitle=f"Sorted by the score on {SPLIT}, best first. Each verdict compares a setting with the baseline"
        + ("." if name == "baseline" else f", {name}."),
        links=links,
        here=here,
        served=served,
        split=SPLIT,
        matters=MATTERS,
        cards=sections.score_cards("Best score", best.mean(SPLIT), f", by {best.name}", best.result.metrics[MODEL]),
        texts=[_text(board, rows, served=served) for rows in board.texts],
        sentences=board_text.sentences(board),
        tries=judged_tries(),
    )


def judged_tries() -> dict[str, Any] | None:
    """Return a `chart` of the tries that `bukva judge` has scored, and a `sentence` about them, or None."""
    ledger = read_ledger()
    if not ledger or not ledger.scored:
        return None
    return {"chart": charts.tries(*judge.chart_rows(ledger)), "sentence": judge.sentence(ledger)}


def _text(board: Leaderboard, rows: Sequence[Row], *, served: bool) -> dict[str, Any]:
    """Return the table and the charts of the settings that were scored on one text."""
    lines = board_text.as_text(board, rows)
    for line in lines:
        line["names"] = [(name, f"/runs/{quote(name)}" if served else "") for name in line["names"]]
    # zip stops at the last color, so the chart has at most len(charts.SERIES) settings
    settings = zip((row.setting for row in rows), charts.SERIES, strict=False)
    losses = [(each.name, color, pd.DataFrame(each.result.curves[MODEL])) for each, color in settings]
    return {
        "name": board_text.text_name(rows),
        "best": "" if lines[0]["verdict"] else board_text.best_of(rows),
        "rows": lines,
        "differences": differences(board) if rows is board.texts[0] else None,
        "losses": charts.curves(losses, [SPLIT]),
    }


def differences(board: Leaderboard) -> charts.Spec | None:
    """Return a chart of all verdicts in the order of the table, or None without a comparison."""
    rows, trainings, mean = list[list[Any]](), list[dict[str, Any]](), board.baseline.mean(SPLIT)
    for i, row in enumerate(each for each in board.texts[0] if not each.refusal):
        setting, label, numbers = row.setting, f"{score_of(row.setting, SPLIT)} bits", [0.0] * 5
        if row.comparison:
            verdict = row.comparison.verdict
            label, estimate = verdict.verdict, verdict.estimate
            intervals = [*estimate.interval, *estimate.interval_at(verdict.level)] if estimate else [None] * 4
            numbers = [verdict.difference, *intervals]
        seeds = zip(setting.seeds, setting.scores(SPLIT), strict=True)
        trainings += [{"row": i, "seed": seed, "difference": score - mean} for seed, score in seeds]
        name = setting.name + (f" ({len(setting.seeds)} seeds)" if len(setting.seeds) > 1 else "")
        color = charts.GOOD if "better" in label else charts.BAD if "worse" in label else charts.COLORS["counted"]
        rows.append([name, label, *numbers, color])
    columns = ["setting", "verdict", "difference", "low", "high", "least", "most", "colour"]
    table = pd.DataFrame(rows, columns=columns)
    return charts.differences(table, pd.DataFrame(trainings)) if len(rows) > 1 else None


# ---- HTML


def render(template: str, *, package: str = PACKAGE, served: bool = False, **contents: Any) -> str:
    """Render a template of a package to HTML. It may extend the templates of bukva.report.

    A page that is `served` loads page.css and page.js from the server. Otherwise the page contains both.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False}
    inlined = {} if served else {"style": asset("page.css"), "script": asset("page.js")}
    return environment.get_template(template).render(inlined=inlined, **contents)


@functools.cache
def asset(name: str) -> str:
    """Return the content of page.css or page.js, which follows the chart library Vega-Lite."""
    content = (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")
    return f"{vl_convert.javascript_bundle(EXPOSE)}\n{content}" if name == "page.js" else content


if __name__ == "__main__":  # the Makefile writes the chart library to a file, which the pages of `dvc plots` load
    print(f"(() => {{{vl_convert.javascript_bundle(EXPOSE)}}})();")
