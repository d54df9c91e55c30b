"""Fills the templates of pages, which need no network: one file, or with style and script beside it on a server."""

import functools
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

PACKAGE = "bukva.report.page"
EXPOSE = "window.vegaEmbed = vegaEmbed;\n"


def render(
    template: str,
    *,
    package: str = PACKAGE,
    served: bool = False,
    **contents: Any,
) -> str:
    """A page from a template of a package, which may extend those of this one.

    served: whether a server has page.css and page.js (asset) under these names, so that each page is small.
    contents: title and what else the template shows; base.html.j2 also knows subtitle, links and sections.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False}
    own = {} if served else {"style": asset("page.css"), "script": asset("page.js")}
    return environment.get_template(template).render(own=own, **contents)


@functools.cache
def asset(name: str) -> str:
    """What pages load: page.css; page.js, which is Vega-Lite and what draws the charts of a page with it."""
    content = (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")
    return f"{vl_convert.javascript_bundle(EXPOSE)}\n{content}" if name == "page.js" else content
