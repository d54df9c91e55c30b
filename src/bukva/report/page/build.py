"""Writes the report pages: that of the last run, and that of all experiments."""

import sys
from collections.abc import Callable
from pathlib import Path

from bukva.base.errors import BukvaError
from bukva.pipeline.stages import trained_models
from bukva.report.page import results, text
from bukva.report.page.attention import attention
from bukva.report.page.experiment import Experiment
from bukva.report.page.experiments import Experiments
from bukva.report.page.predictors import predictors
from bukva.report.page.render import write_page

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
ALL_EXPERIMENTS = "experiments.html"  # beside the page of the last run


def build(path: Path, link: Callable[[], str]) -> list[Path]:
    """Write the page of the last run in this checkout, and beside it one of all experiments.

    Without experiments to compare it prints why there is no second page.

    link: gives the address of an experiment in MLflow, with {} for its name, or ""; it is called for the second page.

    Returns:
        The pages. Each needs no other file and no network.

    Raises:
        BukvaError: the pipeline has not run; names what is missing.
    """
    experiment, beside = Experiment.read(), path.with_name(ALL_EXPERIMENTS)
    try:
        experiments = Experiments.read()
    except BukvaError as error:
        print(f"There is no {beside}. {error}", file=sys.stderr)
        beside.unlink(missing_ok=True)
        _write_experiment(path, experiment, [])
        return [path]
    _write_experiment(path, experiment, [(beside.name, "All experiments")])
    experiments.write(beside, [(path.name, "The last run")], link())
    return [path, beside]


def _write_experiment(path: Path, experiment: Experiment, others: list[tuple[str, str]]) -> None:
    characters = {split: experiment.characters(split) for split in {"val", experiment.held_out}}
    losses, loss_specs = results.curves(experiment)
    samples, novelty, seen = text.samples(experiment, characters["val"])
    calibration, reliability = text.calibration(experiment)
    heads, head_specs = attention(path.with_name("attention"))
    anatomy, group_specs = text.anatomy_of(experiment, characters[experiment.held_out])
    write_page(
        path,
        "experiment.html.j2",
        {
            "scores": {"": results.scores_chart(experiment)},
            "curves": loss_specs,
            "seen": {"": seen},
            "groups": group_specs,
            "reliability": {"": reliability},
            **head_specs,
        },
        title=_title(experiment),
        subtitle=_subtitle(experiment),
        sections=list(SECTIONS.items()),
        others=others,
        verdict=results.verdict(experiment),
        curves=losses,
        samples=samples,
        novelty=novelty,
        predictors=predictors(experiment, characters[experiment.held_out]),
        attention=heads,
        anatomy=anatomy,
        calibration=calibration,
        corpus=text.corpus(experiment),
        cost=results.cost(experiment),
        lineage=results.lineage(experiment),
    )


def _title(experiment: Experiment) -> str:
    score = experiment.table["gpt"][experiment.held_out]["bits_per_char"]
    return f"{trained_models()['gpt'].label}: {score:.3f} bits per character on {experiment.held_out}"


def _subtitle(experiment: Experiment) -> str:
    model, unit = experiment.params.model, experiment.table["window"]["unit"]
    return (
        f"{experiment.params.download.corpus}, {experiment.cleaning['chars']:,} characters; {model.n_layer} layers, "
        f"{model.n_head} heads, {model.n_embd} channels, block of {model.block_size} {unit}s, n-grams: {model.ngrams}"
    )
