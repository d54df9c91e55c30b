"""Makes the pages: the report of one result, and the overview of all experiments."""

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from bukva.compare.leaderboard import SPLIT, Leaderboard, Row, leaderboard
from bukva.compare.results import default_baseline
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, sha256, write_text
from bukva.project.revisions import WORKSPACE
from bukva.project.stages import trained_models
from bukva.report import attention, charts
from bukva.report import leaderboard as shown
from bukva.report.page import results, text
from bukva.report.page.experiment import Experiment
from bukva.report.page.render import render
from bukva.text.ids import bits

STUDY = Path("reports/attention")
OVERVIEW = "experiments.html"  # beside the page of the last run
MODEL = "gpt"


def build(path: Path) -> list[Path]:
    """Write the page of the last run in this checkout, and beside it one of all experiments.

    Without a baseline to compare with it prints why there is no second page.

    Returns:
        The pages. Each needs no other file and no network.

    Raises:
        BukvaError: the pipeline has not run; names what is missing.
    """
    beside = path.with_name(OVERVIEW)
    try:
        write_text(beside, overview([(path.name, "The last run")]))
    except BukvaError as error:
        print(f"There is no {beside}. {error}", file=sys.stderr)
        beside.unlink(missing_ok=True)
    pages = [beside] if beside.exists() else []
    write_text(path, page_of(WORKSPACE, [(page.name, "All experiments") for page in pages]))
    return [path, *pages]


def page_of(name: str, links: Sequence[tuple[str, str]], *, served: bool = False) -> str:
    """The page of a result.

    Args:
        name: of an experiment, a branch, a tag, a commit, or workspace.
        links: addresses of other pages, and what they are.
        served: see render.

    Raises:
        BukvaError: nothing has this name, or it has no result; says what to do.
    """
    with Experiment.opened(name) as experiment:
        score = experiment.table[MODEL][SPLIT]["bits_per_char"]
        model, unit = experiment.params.model, experiment.table["window"]["unit"]
        weights = experiment.folder / trained_models()[MODEL].folder / "best.safetensors"
        return render(
            "experiment.html.j2",
            title=f"{experiment.name}: {score:.3f} bits per character on {SPLIT}",
            subtitle=f"{experiment.params.download.corpus}, {experiment.read('cleaning')['chars']:,} characters; "
            f"{model.n_layer} layers, {model.n_head} heads, {model.n_embd} channels, block of {model.block_size} "
            f"{unit}s, n-grams: {model.ngrams}",
            links=links,
            served=served,
            verdict=results.verdict(experiment),
            losses=results.losses(experiment),
            samples=text.samples(experiment),
            predictors=results.predictors(experiment),
            attention=attention.section(project_root() / STUDY, sha256(weights)),
            anatomy=text.anatomy_of(experiment),
            calibration=text.calibration(experiment),
            learning_on=text.learning_on(experiment),
            corpus=text.corpus(experiment, experiment.read("split_report")),
            cost=results.cost(experiment),
            lineage=results.lineage(experiment),
        )


def overview(links: Sequence[tuple[str, str]], *, served: bool = False) -> str:
    """The page of all experiments; that of a server has links to the report of each.

    Raises:
        BukvaError: the last commit has no result to compare with; says what to do.
    """
    board = leaderboard(default_baseline(), MODEL)
    best, (header, rows) = board.rows[0].setting, shown.table(board)
    return render(
        "experiments.html.j2",
        title=f"Best of {len(rows)}: {best.name}, {rows[0][1]} bits per character on {SPLIT}",
        subtitle=f"All experiments, the best on {SPLIT} first; verdicts are against {board.baseline.name}, the "
        "baseline. 2.3 bits a character mean being as unsure as among five equally likely letters.",
        links=links,
        served=served,
        split=SPLIT,
        header=header,
        rows=rows,
        reports=[f"/runs/{quote(row.setting.names[0])}" for row in board.rows] if served else [],
        sentences=shown.sentences(board),
        scores=_scores(board),
        losses=_losses(board),
    )


def _label(row: Row) -> str:
    """The name, and what differs: charts have little else."""
    return f"{row.setting.name}: {shown.changed(row)}" if row.changed else row.setting.name


def _scores(board: Leaderboard) -> charts.Spec:
    """A dot for each training."""
    points = pd.DataFrame(
        {"label": _label(row), "seed": seed, "colour": charts.GPT, "bits": score}
        for row in board.rows
        for seed, score in zip(row.setting.seeds, row.setting.scores(SPLIT), strict=True)
    )
    return charts.dots(
        points, f"{charts.BITS} on {SPLIT}", f"Scores of {len(board.rows)} settings on {SPLIT}, by seed."
    )


def _losses(board: Leaderboard) -> dict[str, charts.Spec]:
    """The losses of the best settings, for each axis."""
    points = pd.DataFrame(
        {"model": _label(row), "colour": colour, "split": SPLIT, "step": step, "chars": chars, "bits": bits(nats)}
        for row, colour in zip(board.rows, charts.SERIES, strict=False)
        for step, chars, nats in row.setting.result.curves[MODEL]
    )
    return {title: charts.curves(points, x, title) for x, title in results.AXES.items()}
