"""Makes the report pages: that of one result, and that of all experiments."""

import sys
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text
from bukva.project.revisions import WORKSPACE
from bukva.report import attention
from bukva.report.page import results, text
from bukva.report.page.experiment import SPLIT, Experiment
from bukva.report.page.experiments import Experiments
from bukva.report.page.render import Links, render

SECTIONS = {
    "verdict": "Verdict",
    "losses": "Losses",
    "samples": "Samples",
    "predictors": "Who predicted what",
    "attention": "Attention",
    "anatomy": "Anatomy",
    "corpus": "Corpus and split",
    "cost": "Cost",
    "lineage": "Lineage",
}
REPORTS = Path("reports")
ALL_EXPERIMENTS = "experiments.html"  # beside the page of the last run


def build(path: Path) -> list[Path]:
    """Write the page of the last run in this checkout, and beside it one of all experiments.

    Without experiments to compare it prints why there is no second page.

    Returns:
        The pages. Each needs no other file and no network.

    Raises:
        BukvaError: the pipeline has not run; names what is missing.
    """
    beside = path.with_name(ALL_EXPERIMENTS)
    try:
        experiments = Experiments.read()
        missing = experiments.alone
    except BukvaError as error:
        missing = str(error)
    if missing:
        print(f"There is no {beside}. {missing}", file=sys.stderr)
        beside.unlink(missing_ok=True)
        write_text(path, page_of(WORKSPACE, links=[]))
        return [path]
    write_text(path, page_of(WORKSPACE, links=[(beside.name, "All experiments")]))
    write_text(beside, experiments.page(links=[(path.name, "The last run")]))
    return [path, beside]


def page_of(name: str, *, links: Links, served: bool = False) -> str:
    """The page of a result.

    Args:
        name: of an experiment, a branch, a tag, a commit, or workspace.
        links: other pages.
        served: see render.

    Raises:
        BukvaError: nothing has this name, or it has no result; says what to do.
    """
    with Experiment.opened(name) as experiment:
        return _page(experiment, links, served)


def _page(experiment: Experiment, links: Links, served: bool) -> str:
    characters = experiment.characters(SPLIT)
    losses, loss_specs = results.curves(experiment)
    samples, novelty, seen = text.samples(experiment, characters)
    calibration, reliability = text.calibration(experiment)
    heads, head_specs = attention.section(experiment, project_root() / REPORTS / "attention")
    anatomy, group_specs = text.anatomy_of(experiment, characters)
    corpus, corpus_specs = text.corpus(experiment)
    return render(
        "experiment.html.j2",
        {
            "scores": {"": results.scores_chart(experiment)},
            "curves": loss_specs,
            "seen": {"": seen},
            "groups": group_specs,
            "reliability": {"": reliability},
            "corpus": corpus_specs,
            **head_specs,
        },
        served=served,
        links=links,
        refresh=0,
        title=_title(experiment),
        subtitle=_subtitle(experiment),
        sections=list(SECTIONS.items()),
        verdict=results.verdict(experiment),
        curves=losses,
        samples=samples,
        novelty=novelty,
        predictors=results.predictors(experiment, characters),
        attention=heads,
        anatomy=anatomy,
        calibration=calibration,
        corpus=corpus,
        cost=results.cost(experiment),
        lineage=results.lineage(experiment),
    )


def _title(experiment: Experiment) -> str:
    score = experiment.table["gpt"][SPLIT]["bits_per_char"]
    name = "The last run" if experiment.result.revision.is_workspace else experiment.result.revision.name
    return f"{name}: {score:.3f} bits per character on {SPLIT}"


def _subtitle(experiment: Experiment) -> str:
    model, unit = experiment.params.model, experiment.table["window"]["unit"]
    return (
        f"{experiment.params.download.corpus}, {experiment.cleaning['chars']:,} characters; {model.n_layer} layers, "
        f"{model.n_head} heads, {model.n_embd} channels, block of {model.block_size} {unit}s, n-grams: {model.ngrams}"
    )
