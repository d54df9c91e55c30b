"""The web application of a project, for this machine.

GET  /             all experiments
GET  /runs/NAME    the report of one
GET  /play         the playground
POST /play/score   the bits of each character of a text, and the likeliest next characters
POST /play/write   the characters that follow a text, one JSON object a line, each sent as it is drawn
GET  /mlflow       to MLflow, where it compares the losses; ?run=NAME for the runs of one experiment

A page about nothing has status 404, a POST that makes no sense 400 and {"error": a sentence}.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import Field

from bukva.config.load import read_params
from bukva.config.messages import sentence
from bukva.config.schema import MOST_CHARS, Sample, Section
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json
from bukva.core.processes import HOST, listen
from bukva.project import baseline
from bukva.project.revisions import WORKSPACE, experiments, git, resolve
from bukva.project.stages import paths
from bukva.report.charts import LEVELS
from bukva.report.page.build import overview, page_of
from bukva.report.page.render import asset, render
from bukva.serving.learning import Learner
from bukva.serving.library import Choice, Library
from bukva.serving.writer import RequestSettings, Writer, settings
from bukva.tracking.experiment import name_of_repro
from bukva.tracking.ui import Server, mlflow_server

GRACE_SECONDS = 1  # for texts that are being written when Ctrl-C is pressed
LINKS = [
    ("/", "Experiments"),
    (f"/runs/{WORKSPACE}", "The last run"),
    ("/play", "Playground"),
    ("/mlflow", "MLflow"),
]
# A browser then loads nothing from elsewhere, and runs no script that stands in a text. Vega sets styles of elements.
POLICY = "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'"
TYPES = {"css": "text/css", "js": "text/javascript"}
IN_MEMORY = 50  # pages
SHOWN = "dvc.lock", "params.yaml", "reports"  # of the checkout: what pages show of it changes with them
MOST_TYPED = 100_000  # characters of the text of a request
MOST_LEARNED = 100  # texts that a model learns from before it
N_LIKELIEST = 5
FLUSH_SECONDS = 0.02  # sending each character by itself takes as long as drawing it, and nobody sees the difference
POLL_SECONDS = 0.2


def serve(path: str, port: int) -> None:
    """Print the address of a page, and serve all pages and MLflow until Ctrl-C, from this port or the next free one."""
    os.chdir(project_root())
    params = read_params()
    # a shell starts what is in the background without SIGINT
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), listen(port) as found, mlflow_server() as mlflow:
        print(f"Open (Ctrl-C ends it): http://{HOST}:{found.getsockname()[1]}{path}", flush=True)
        app = site(Library(params.compute), params.sample, mlflow)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS)
        uvicorn.Server(config).run(sockets=[found])


class TextRequest(Section):
    """A model's key (library.py), a text, and keys of section sample with values that replace those of params.yaml.

    learned: texts from which the model has learned before; without a list it does not learn from the text either.
    """

    model: str
    text: Annotated[str, Field(max_length=MOST_TYPED)]
    settings: dict[str, Any] = Field(default_factory=dict)
    learned: Annotated[list[Annotated[str, Field(max_length=MOST_TYPED)]], Field(max_length=MOST_LEARNED)] | None = None


def site(library: Library, sample: Sample, mlflow: Server) -> FastAPI:
    """The application; sample is the section of params.yaml, and mlflow the server to which it leads."""
    app = FastAPI(openapi_url=None)  # no page of FastAPI's own, which would load its scripts from elsewhere
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])  # no other site's name
    app.mount("/static", StaticFiles(packages=[("bukva.serving", "static")]))

    @app.middleware("http")
    async def with_policy(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await respond(request)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @app.exception_handler(BukvaError)
    @app.exception_handler(RequestValidationError)
    async def refuse(request: Request, error: BukvaError | RequestValidationError) -> Response:
        text = str(error)
        if isinstance(error, RequestValidationError):
            first = error.errors()[0]
            text = sentence(first | {"loc": first["loc"][1:]}, TextRequest)  # without "body"
        if request.method == "GET":
            page = render(
                "message.html.j2",
                served=True,
                links=LINKS,
                here=request.url.path,
                title="Nothing to show here",
                text=text,
            )
            return HTMLResponse(page, status_code=404)
        return JSONResponse({"error": text}, status_code=400)

    @app.get("/page.{kind}")
    def show_asset(kind: Literal["css", "js"]) -> Response:
        return Response(asset(f"page.{kind}"), media_type=TYPES[kind])

    @app.get("/", response_class=HTMLResponse)
    @app.get("/runs/{name:path}", response_class=HTMLResponse)
    def show(name: str = "") -> str:
        with _building:
            return _page(name, _state())

    @app.get("/mlflow")
    def open_mlflow(run: str = "") -> RedirectResponse:
        while not mlflow.is_ready():
            time.sleep(POLL_SECONDS)
        return RedirectResponse(mlflow.page(run))

    @app.get("/play", response_class=HTMLResponse)
    def play() -> str:
        return _playground(library.choices(), sample)

    @app.post("/play/score")
    def score(request: TextRequest) -> dict[str, Any]:
        writer, learner = library.writer(request.model), _learner(library, request)
        with learner.after(request.learned or []) if learner else nullcontext(writer) as learned:
            answer = _scored(learned, request.text) | {"likeliest": learned.likeliest(request.text, N_LIKELIEST)}
        return answer | {"unlearned": writer.score(request.text) if learner else None}

    @app.post("/play/write")
    def write(request: TextRequest) -> StreamingResponse:
        how = settings(sample.model_dump() | request.settings, RequestSettings)
        writer, learner = library.writer(request.model), _learner(library, request)
        pieces = _written(learner.apart(request.learned or []) if learner else writer, request.text, how)
        return StreamingResponse(pieces, media_type="application/x-ndjson")

    return app


# ---- the pages of results, each built when somebody asks for it, and again only when what it shows has changed


_building = threading.Lock()  # which takes seconds: a second request waits for the page of the first


@lru_cache(IN_MEMORY)
def _page(name: str, _: object) -> str:
    """The report of a result, by the name of an experiment, a branch, a tag or a commit, or workspace; "" for all."""
    if not name:
        return overview(LINKS, served=True)
    here = f"/runs/{quote(name)}"
    own = [(here, name)] if name != WORKSPACE else []
    if name in [one.name for one in experiments()]:
        run = name_of_repro(resolve(name).baseline) if name == baseline.NAME else name  # `make repro` ran it
        own.append((f"/mlflow?run={quote(run)}", f"{name} in MLflow"))
    return page_of(name, [*LINKS, *own], here=here, served=True)


def _state() -> tuple[object, ...]:
    """What changes when a result does: the commits of git and of experiments, and when files of the checkout did."""
    files = [file for name in SHOWN for file in (Path(name), *Path(name).rglob("*"))]
    return git("show-ref", "--head"), *((file, file.stat().st_mtime_ns) for file in files if file.is_file())


# ---- the playground


def _playground(choices: list[Choice], sample: Sample) -> str:
    """The page with these models to choose from, and the settings of params.yaml as its first ones."""
    answers = Path(paths()["answers"])
    prompts = read_json(answers)["prompts"] if answers.exists() else []
    others = [choice for choice in choices if choice.experiment != choices[0].experiment] or choices[1:] or choices
    return render(
        "playground.html.j2",
        package="bukva.serving",
        served=True,
        links=LINKS,
        here="/play",
        title="Playground",
        subtitle="Your text is coloured by how surprising each character is to each model. Type, then let both go on.",
        choices=choices,
        chosen={"A": choices[0].key, "B": others[0].key},
        sample=sample,
        prompts=prompts,
        text=next((prompt for prompt in prompts if prompt.strip()), ""),
        levels=LEVELS,
        most_chars=MOST_CHARS,
    )


def _scored(writer: Writer, text: str) -> dict[str, Any]:
    """Return a text with composed letters, its pieces with their bits, and what is left out."""
    return {"text": writer.composed(text), "scored": writer.score(text), "unknown": writer.unknown(text)}


def _learner(library: Library, request: TextRequest) -> Learner | None:
    """The model of a request, if it is to learn and can."""
    return library.learner(request.model) if request.learned is not None else None


def _written(writer: Writer, text: str, how: Sample) -> Iterator[str]:
    """What the page reads: first the text that the model continues, then each piece that it writes, in batches."""
    yield _line(_scored(writer, text))
    waiting, sent_at = "", 0.0
    for piece in writer.write(text, how):
        waiting += _line(piece)
        if time.monotonic() - sent_at >= FLUSH_SECONDS:
            yield waiting
            waiting, sent_at = "", time.monotonic()
    yield waiting


def _line(content: object) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"
