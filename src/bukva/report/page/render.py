"""Fills the templates of pages, which need no network: one file, or with style and script beside it on a server."""

import functools
import json
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bukva.report.charts import Spec

EXPOSE = "window.vegaEmbed = vegaEmbed;\n"

Specs = dict[str, dict[str, Spec]]  # chart -> choice -> specification; one that has no choices has ""
Links = list[tuple[str, str]]  # addresses of other pages, and what they are


def render(template: str, specs: Specs, *, served: bool, links: Links, **contents: Any) -> str:
    """A page from a template of this package.

    served: whether a server has page.css and page.js (asset) under these names, so that each page is small.
    """
    environment = Environment(
        loader=PackageLoader("bukva.report.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    own = {} if served else {"style": asset("page.css"), "script": asset("page.js")}
    return environment.get_template(template).render(own=own, specs=_embedded(specs), links=links, **contents)


@functools.cache
def asset(name: str) -> str:
    """What pages load: page.css; page.js, which is Vega-Lite and what draws the charts of a page with it."""
    import vl_convert

    content = (files("bukva.report.page") / "templates" / name).read_text(encoding="utf-8")
    return f"{vl_convert.javascript_bundle(EXPOSE)}\n{content}" if name == "page.js" else content


def _embedded(value: object) -> str:
    """JSON inside an element of a page, which no text in it can end."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
