"""Writes the report page."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from bukva.base.files import write_text
from bukva.pipeline.stages import trained_models
from bukva.report.page import results, text
from bukva.report.page.experiment import Experiment

SECTIONS = {
    "verdict": "Verdict",
    "losses": "Losses",
    "samples": "Samples",
    "anatomy": "Anatomy",
    "corpus": "Corpus and split",
    "cost": "Cost",
    "lineage": "Lineage",
}
EXPOSE = "window.vegaEmbed = vegaEmbed;\n"


def build(path: Path) -> None:
    """Write the page of the last run in this checkout; it needs no other file and no network.

    Raises:
        BukvaError: the pipeline has not run; names what is missing.
    """
    experiment = Experiment.read()
    characters = {split: experiment.characters(split) for split in {"val", experiment.held_out}}
    losses, loss_specs = results.curves(experiment)
    samples, novelty, seen = text.samples(experiment, characters["val"])
    anatomy, group_specs = text.anatomy_of(experiment, characters[experiment.held_out])
    specs = {
        "scores": {"": results.scores_chart(experiment)},
        "curves": loss_specs,
        "seen": {"": seen},
        "groups": group_specs,
    }
    write_text(
        path,
        _template().render(
            title=_title(experiment),
            subtitle=_subtitle(experiment),
            sections=list(SECTIONS.items()),
            verdict=results.verdict(experiment),
            curves=losses,
            samples=samples,
            novelty=novelty,
            anatomy=anatomy,
            corpus=text.corpus(experiment),
            cost=results.cost(experiment),
            lineage=results.lineage(experiment),
            style=_read("page.css"),
            script=_script(),
            specs=_embedded(specs),
        ),
    )


def _title(experiment: Experiment) -> str:
    score = experiment.metrics["gpt"][experiment.held_out]["bits_per_char"]
    return f"{trained_models()['gpt'].label}: {score:.3f} bits per character on {experiment.held_out}"


def _subtitle(experiment: Experiment) -> str:
    model, unit = experiment.params.model, experiment.metrics["window"]["unit"]
    return (
        f"{experiment.params.download.corpus}, {experiment.cleaning['chars']:,} characters; {model.n_layer} layers, "
        f"{model.n_head} heads, {model.n_embd} channels, block of {model.block_size} {unit}s, n-grams: {model.ngrams}"
    )


def _template() -> Any:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_read("page.html.j2"))


def _script() -> str:
    """Vega-Lite and what draws the charts of the page with it, as one module."""
    import vl_convert

    return str(vl_convert.javascript_bundle(EXPOSE)) + "\n" + _read("page.js")


def _embedded(value: object) -> str:
    """JSON inside an element of a page, which no text in it can end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (files("bukva.report.page") / name).read_text(encoding="utf-8")
