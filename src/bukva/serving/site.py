"""The web application on this machine: the experiments, the report of each, the playground, and the way to MLflow.

GET  /             all experiments
GET  /runs/NAME    the report of one
GET  /play         the playground (playground/app.py)
GET  /mlflow       to MLflow, where it compares the losses; ?run=NAME for the runs of one experiment
GET  /project      the folder of the project, by which a second `bukva ui` knows the first
"""

from collections.abc import Awaitable, Callable
from functools import cache

from fastapi import FastAPI, Request, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse

from bukva.config.schema import Sample
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.processes import HOST
from bukva.report.page.render import asset
from bukva.serving.library import Library
from bukva.serving.pages import LINKS, Pages, message
from bukva.serving.playground.app import add_playground
from bukva.tracking.ui import Server

# A browser then loads nothing from elsewhere, and runs no script that stands in a text. Vega sets styles of elements.
POLICY = "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'"
TYPES = {"page.css": "text/css", "page.js": "text/javascript"}
REFRESH_SECONDS = 2


def site(library: Callable[[], Library], sample: Sample, mlflow: Server) -> FastAPI:
    """The application.

    Args:
        library: opens the library of models; it is called once, for the first page that needs one.
        sample: section of params.yaml, with the settings that a request of the playground does not replace.
        mlflow: the server to which it leads.
    """
    app = FastAPI(openapi_url=None)  # no page of FastAPI's own, which would load its scripts from elsewhere
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])  # no other site's name
    pages = Pages()

    @app.middleware("http")
    async def with_policy(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await respond(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @app.get("/", response_class=HTMLResponse)
    def show_experiments() -> str:
        return pages.overview()

    @app.get("/runs/{name:path}", response_class=HTMLResponse)
    def show_run(name: str) -> str:
        return pages.run(name)

    @app.get("/mlflow", response_model=None)
    def open_mlflow(run: str = "") -> Response:
        if mlflow.is_ready():
            return RedirectResponse(mlflow.page(run))
        return HTMLResponse(message("MLflow is starting", "It opens here in some seconds.", REFRESH_SECONDS))

    @app.get("/project", response_class=PlainTextResponse)
    def show_project() -> str:
        return str(project_root())

    @app.get("/page.{kind}")
    def show_asset(kind: str) -> Response:
        name = f"page.{kind}"
        return Response(asset(name), media_type=TYPES[name]) if name in TYPES else Response(status_code=404)

    @app.exception_handler(BukvaError)
    async def refuse(request: Request, error: BukvaError) -> Response:
        if request.method == "GET":
            return HTMLResponse(message("Nothing to show here", str(error)), status_code=404)
        return JSONResponse({"error": str(error)}, status_code=400)

    add_playground(app, cache(library), sample, LINKS)
    return app
