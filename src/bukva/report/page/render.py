"""Render the templates of pages. A page is one file; on a server, style and script are files of their own."""

import functools
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

PACKAGE = "bukva.report.page"
EXPOSE = "window.vegaEmbed = vegaEmbed;\n"


def render(template: str, *, package: str = PACKAGE, served: bool = False, **contents: Any) -> str:
    """Render a template to HTML.

    Args:
        template: the name of the template.
        package: the package that has it. Its templates may extend the templates of this package.
        served: whether a server serves page.css and page.js (see asset). Otherwise the page contains them.
        contents: the variables of the template: a title, what the template shows, and for base.html.j2 also subtitle,
            links and sections.
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
    """Return page.css, or page.js: Vega-Lite and the code that draws the charts of a page."""
    content = (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")
    return f"{vl_convert.javascript_bundle(EXPOSE)}\n{content}" if name == "page.js" else content
