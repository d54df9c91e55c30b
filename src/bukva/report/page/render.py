"""Render the templates of HTML pages."""

import functools
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

PACKAGE = "bukva.report.page"
# makes the function vegaEmbed of the Vega-Lite bundle available to page.js
EXPOSE = "window.vegaEmbed = vegaEmbed;\n"


def render(template: str, *, package: str = PACKAGE, served: bool = False, **contents: Any) -> str:
    """Render a template of a package to HTML. It may extend the templates of bukva.report.page.

    A page that is `served` loads page.css and page.js from the server. Otherwise the page contains both. base.html.j2
    needs `title`, and uses `subtitle`, `links`, `here`, `cards` and `sections` if they are defined.
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
    """Return the content of page.css or page.js, which follows the chart library Vega-Lite."""
    content = (files(PACKAGE) / "templates" / name).read_text(encoding="utf-8")
    return f"{vl_convert.javascript_bundle(EXPOSE)}\n{content}" if name == "page.js" else content


if __name__ == "__main__":  # the Makefile writes the chart library to a file, which the pages of `dvc plots` load
    print(f"(() => {{{vl_convert.javascript_bundle(EXPOSE)}}})();")
