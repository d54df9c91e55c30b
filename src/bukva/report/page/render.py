"""Render the templates of HTML pages.

A page that is written to disk contains page.css and page.js. A page that the web server sends loads both files.
"""

import functools
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

PACKAGE = "bukva.report.page"
# makes the function vegaEmbed of the Vega-Lite bundle available to page.js
EXPOSE = "window.vegaEmbed = vegaEmbed;\n"


def render(template: str, *, package: str = PACKAGE, served: bool = False, **contents: Any) -> str:
    """Render a template to HTML.

    Args:
        template: the file name of the template.
        package: the package whose folder `templates` contains the template. The template may extend the templates of
            bukva.report.page.
        served: load page.css and page.js from the server instead of including them in the page.
        contents: the variables of the template. base.html.j2 needs `title`, and uses `subtitle`, `links`, `here`,
            `cards` and `sections` if they are defined.
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
    """Return the content of page.css or page.js. The content of page.js follows the chart library Vega-Lite."""
    content = (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")
    return f"{vl_convert.javascript_bundle(EXPOSE)}\n{content}" if name == "page.js" else content
