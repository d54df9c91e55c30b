"""Fills the templates of pages that need no other file and no network."""

import functools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bukva.base.files import write_text
from bukva.report.page.charts import Spec

EXPOSE = "window.vegaEmbed = vegaEmbed;\n"

Specs = dict[str, dict[str, Spec]]  # chart -> choice -> specification; one that has no choices has ""


def write_page(path: Path, template: str, specs: Specs, **contents: Any) -> None:
    """Write a page from a template of this package."""
    environment = Environment(
        loader=PackageLoader("bukva.report.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template(template).render(
        style=read_asset("page.css"), script=_script(), specs=_embedded(specs), **contents
    )
    write_text(path, page)


@functools.cache
def _script() -> str:
    """Vega-Lite and what draws the charts of the page with it, as one module."""
    import vl_convert

    return str(vl_convert.javascript_bundle(EXPOSE)) + "\n" + read_asset("page.js")


def _embedded(value: object) -> str:
    """JSON inside an element of a page, which no text in it can end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def read_asset(name: str) -> str:
    """A file beside the templates: page.css, page.js."""
    return (files("bukva.report.page") / "templates" / name).read_text(encoding="utf-8")
