"""The page of the playground."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bukva.config.schema import Sample
from bukva.core.files import read_json
from bukva.project.stages import paths
from bukva.report.page.charts import LEVELS
from bukva.report.page.render import Links
from bukva.serving.library import Choice

SIDES = ("A", "B")
MOST_CHARS = 100_000  # of the text of a request, and of what a model writes then


def page(choices: Sequence[Choice], sample: Sample, links: Links) -> str:
    """The page with these models to choose from, the settings of params.yaml as its first ones, and other pages."""
    environment = Environment(
        loader=PackageLoader("bukva.serving.playground"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    prompts = _prompts()
    return environment.get_template("playground.html.j2").render(
        groups=[(name, list(group)) for name, group in groupby(choices, key=lambda choice: choice.experiment)],
        chosen=dict(zip(SIDES, _first(choices), strict=True)),
        sample=sample,
        prompts=prompts,
        text=next((prompt for prompt in prompts if prompt.strip()), ""),
        levels=LEVELS,
        links=links,
        most_chars=MOST_CHARS,
    )


def _first(choices: Sequence[Choice]) -> tuple[str, str]:
    """The keys that are chosen at first: the last run beside the best other GPT, or beside its own next model."""
    others = [choice for choice in choices[1:] if (choice.model.name, choice.alone) == ("gpt", False)]
    return choices[0].key, (others or list(choices[1:]) or list(choices))[0].key


def _prompts() -> list[str]:
    """Those of the samples of the last run."""
    path = Path(paths()["answers"])
    content: dict[str, Any] = read_json(path) if path.exists() else {}
    return list(content.get("prompts", []))
