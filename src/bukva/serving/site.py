"""The web application on this machine: the experiments, the report of each, the playground, and the way to MLflow.

GET  /             all experiments
GET  /runs/NAME    the report of one
GET  /play         the playground (playground/app.py)
GET  /mlflow       to MLflow, where it compares the losses; ?run=NAME for the runs of one experiment
GET  /project      the folder of the project, by which a second `bukva ui` knows the first
"""

import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse

from bukva.config.schema import Sample
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.processes import HOST
from bukva.project.revisions import WORKSPACE, experiments, git
from bukva.project.stages import paths
from bukva.report.page.build import page_of
from bukva.report.page.experiments import Experiments
from bukva.report.page.render import Links, asset, render
from bukva.serving.library import Library
from bukva.serving.playground.app import add_playground
from bukva.tracking.journal import Journal, read_journals
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


# ---- the pages of results, each built when somebody asks for it, and again only when what it shows has changed


OVERVIEW = ("/", "Experiments")
LAST_RUN = (f"/runs/{WORKSPACE}", "The last run")
PLAYGROUND = ("/play", "Playground")
MLFLOW = ("/mlflow", "MLflow")
LINKS = [OVERVIEW, LAST_RUN, PLAYGROUND, MLFLOW]
IN_MEMORY = 50  # pages
KEPT = "dvc.lock", "params.yaml", "reports"  # of the checkout: what pages show of it changes with them

Key = tuple[object, ...]


class Pages:
    """The pages, kept in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Key, str]] = {}  # by name; the one that was built last is the last
        self._lock = threading.Lock()  # building takes seconds: a second request waits for the page of the first

    def overview(self) -> str:
        """That of all experiments; a sentence says what to do where there is none."""
        training = [_now(journal) for journal in read_journals() if _is_training(journal)]
        return self._page("", [*_state(), *training], lambda: _overview(training))

    def run(self, name: str) -> str:
        """The report of a result, by the name of an experiment, a branch, a tag or a commit, or workspace.

        Raises:
            BukvaError: nothing has this name, or it has no result.
        """
        return self._page(name, _state(), lambda: page_of(name, links=_links(name), served=True))

    def _page(self, name: str, state: Sequence[object], build: Callable[[], str]) -> str:
        key = tuple(state)
        with self._lock:
            if self._kept.get(name, ((), ""))[0] != key:
                self._kept[name] = key, build()
                while len(self._kept) > IN_MEMORY:
                    del self._kept[next(iter(self._kept))]
            return self._kept[name][1]


def message(title: str, sentence: str, refresh: int = 0) -> str:
    """A page that says one sentence. refresh: seconds after which it is asked for again; 0 for never."""
    return render(
        "message.html.j2",
        {},
        served=True,
        links=LINKS,
        refresh=refresh,
        title=title,
        subtitle="",
        sections=[],
        sentence=sentence,
    )


def _links(name: str) -> Links:
    """The pages, and for an experiment its runs in MLflow; other results have other names there."""
    if name not in [experiment.name for experiment in experiments()]:
        return LINKS
    return [*LINKS, (f"/mlflow?run={quote(name)}", f"{name} in MLflow")]


def _overview(training: list[str]) -> str:
    try:
        return Experiments.read().page(links=LINKS, served=True, training=training)
    except BukvaError as error:
        has_run = (project_root() / paths()["scores"]).exists()
        return message("No experiments to compare yet" if has_run else "No result yet", str(error))


def _state() -> list[object]:
    """What changes when a result does: the commits of git and of experiments, and when files of the checkout did."""
    kept = [project_root() / name for name in KEPT]
    files = [file for path in kept for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    return [git("show-ref", "--head"), *((file, _changed_at(file)) for file in files)]


def _changed_at(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def _is_training(journal: Journal) -> bool:
    return journal.start["kind"] == "training" and journal.status()[0] == "RUNNING"


def _now(journal: Journal) -> str:
    """What a training is and how far it is."""
    start, section = journal.start, str(journal.start["stage"]).replace("-", "_")
    steps = [record["step"] for record in journal.read()[0] if record["record"] == "metrics"]
    name, n_steps = start.get("label", start["experiment"]), start["params"][f"{section}.n_steps"]
    return f"{name}, {start['stage']}, update {max(steps, default=0):,} of {n_steps:,}"
