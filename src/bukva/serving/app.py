"""Serve the pages of a project to browsers on this machine.

GET  /             all experiments
GET  /runs/NAME    the report of one experiment
GET  /play         the playground
POST /play/score   the bits of each character of a text, and the likeliest next characters
POST /play/write   the continuation of a text as JSON objects, one per line, sent while it is generated
GET  /mlflow       redirect to the losses of all experiments in MLflow; ?run=NAME for the runs of one experiment

A page that does not exist has status 404. An invalid POST request returns status 400 and {"error": message}.
"""

import json
import math
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

import uvicorn
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import Field

from bukva.backends.device import prepare
from bukva.compare.results import Result, as_folder, read_results
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json
from bukva.core.messages import error_message
from bukva.core.params import read_params
from bukva.core.processes import HOST, listen
from bukva.core.schema import MOST_CHARS, Compute, Sample, Section
from bukva.models.folder import COUNTED
from bukva.project import baseline
from bukva.project.cache import cached_files
from bukva.project.lock import check_conflicts, outputs
from bukva.project.revisions import WORKSPACE, experiments, git, head, resolve
from bukva.project.stages import paths, trained_models
from bukva.report.charts import LEVELS
from bukva.report.page import asset, overview, page_of, render
from bukva.serving.mlflow_server import Server, mlflow_server
from bukva.serving.writer import RequestSettings, Writer, settings
from bukva.tracking.experiment import name_of_repro
from bukva.tracking.record import read_runs

GRACE_SECONDS = 1  # after Ctrl-C, open requests may take this time to finish
LINKS = [("/", "Experiments"), (f"/runs/{WORKSPACE}", "The last run"), ("/play", "Playground"), ("/mlflow", "MLflow")]
# Content security policy: a browser loads nothing from other servers, and does not run scripts that a text contains.
# Vega needs inline styles.
POLICY = "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'"
TYPES = {"css": "text/css", "js": "text/javascript"}
CACHED_PAGES = 50
WATCHED = "dvc.lock", "params.yaml", "reports"  # files and folders of the checkout whose content the pages show
MOST_TYPED = 100_000  # maximum number of characters of a text in a request
N_LIKELIEST = 5
FLUSH_SECONDS = 0.02  # minimum time between batches; sending a single character takes as long as generating it
POLL_SECONDS = 0.2  # time between checks whether MLflow is ready


def serve(path: str, port: int) -> None:
    """Serve all pages and MLflow at `port` or the next free one until Ctrl-C. Print the URL of the page at `path`."""
    os.chdir(project_root())
    params = read_params()
    # A shell starts background processes with SIGINT ignored, so SIGINT needs a handler.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), listen(port) as listener, mlflow_server() as mlflow:
        print(f"Serving (Ctrl-C to stop): http://{HOST}:{listener.getsockname()[1]}{path}", flush=True)
        app = site(Library(params.compute), params.sample, mlflow)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS)
        uvicorn.Server(config).run(sockets=[listener])


# ---- the web application


def site(library: "Library", sample: Sample, mlflow: Server) -> FastAPI:
    """Create the web application. `sample` has the default settings of the playground."""
    app = FastAPI(openapi_url=None)  # FastAPI's documentation pages would load scripts from other servers
    # Rejecting other host names keeps other web sites from reading the pages by DNS rebinding.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    app.middleware("http")(_with_policy)
    app.exception_handler(BukvaError)(_refuse)
    app.exception_handler(RequestValidationError)(_refuse)
    app.mount("/static", StaticFiles(packages=[("bukva.serving", "static")]))
    app.include_router(_results(mlflow))
    app.include_router(_playground(library, sample))
    return app


async def _with_policy(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await respond(request)
    response.headers["Content-Security-Policy"] = POLICY
    return response


async def _refuse(request: Request, error: BukvaError | RequestValidationError) -> Response:
    text = str(error)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        text = error_message(first | {"loc": first["loc"][1:]}, TextRequest)  # FastAPI's begins with "body"
    if request.method != "GET":
        return JSONResponse({"error": text}, status_code=400)
    path, title = request.url.path, "Nothing to show"
    runs = read_runs() if path in dict(LINKS) else []  # pages that show the last run
    if running := [run.stage for run in runs if run.is_running()]:
        title = "No results yet"
        text += f" Stage {running[-1]} is running; MLflow (/mlflow) shows the curves of trainings."
    page = render("message.html.j2", served=True, links=LINKS, here=path, title=title, text=text)
    return HTMLResponse(page, status_code=404)


# ---- pages of results: built on the first request, and rebuilt when the results have changed


def _results(mlflow: Server) -> APIRouter:
    router = APIRouter()

    @router.get("/page.{kind}")
    def show_asset(kind: Literal["css", "js"]) -> Response:
        return Response(asset(f"page.{kind}"), media_type=TYPES[kind])

    @router.get("/", response_class=HTMLResponse)
    @router.get("/runs/{name:path}", response_class=HTMLResponse)
    def show(name: str = "") -> str:
        check_conflicts()
        with _building:
            return _page(name, _state())

    @router.get("/mlflow")
    def open_mlflow(run: str = "") -> RedirectResponse:
        while not mlflow.is_ready():
            time.sleep(POLL_SECONDS)
        return RedirectResponse(mlflow.page(run))

    return router


# Building a page takes seconds. A second request for the same page waits for the lock, and finds the page in the cache.
_building = threading.Lock()


@lru_cache(CACHED_PAGES)
def _page(name: str, _: object) -> str:
    if not name:
        return overview(LINKS, served=True)
    here, revision = f"/runs/{quote(name)}", resolve(name)
    own_links = [(here, revision.name)] if not revision.is_workspace else []
    if run := revision.dvc_name:
        # in MLflow, the baseline of `make repro` has another name
        run = name_of_repro(revision.baseline) if run == baseline.NAME else run
        own_links.append((f"/mlflow?run={quote(run)}", f"{revision.name} in MLflow"))
    return page_of(name, [*LINKS, *own_links], here=here, served=True)


def _state() -> tuple[object, ...]:
    """Return values that change whenever a result changes."""
    files = [file for name in WATCHED for file in (Path(name), *Path(name).rglob("*"))]
    return git("show-ref", "--head"), *((file, file.stat().st_mtime_ns) for file in files if file.is_file())


# ---- the playground


class TextRequest(Section):
    """A request of the playground to score or continue a text."""

    model: str  # key of a Choice
    text: Annotated[str, Field(max_length=MOST_TYPED)]
    settings: dict[str, Any] = Field(default_factory=dict)  # replace values of section `sample` of params.yaml


def _playground(library: "Library", sample: Sample) -> APIRouter:
    router = APIRouter(prefix="/play")

    @router.get("", response_class=HTMLResponse)
    def play() -> str:
        choices, answers = library.choices(), Path(paths()["answers"])
        prompts = read_json(answers)["prompts"] if answers.exists() else []
        # model B is from another experiment than model A, if possible
        others = [choice for choice in choices if choice.experiment != choices[0].experiment] or choices[1:] or choices
        return render(
            "playground.html.j2",
            package="bukva.serving",
            served=True,
            links=LINKS,
            here="/play",
            title="Playground",
            subtitle="The color of a character shows how surprising it is to a model. Type a text, then let both "
            "models continue it.",
            choices=choices,
            chosen={"A": choices[0].key, "B": others[0].key},
            sample=sample,
            prompts=prompts,
            text=next((prompt for prompt in prompts if prompt.strip()), ""),
            levels=LEVELS,
            most_chars=MOST_CHARS,
        )

    @router.post("/score")
    def score(request: TextRequest) -> dict[str, Any]:
        writer = library.writer(request.model)
        return _scored(writer, request.text) | {"likeliest": writer.likeliest(request.text, N_LIKELIEST)}

    @router.post("/write")
    def write(request: TextRequest) -> StreamingResponse:
        sampling = settings(sample.model_dump() | request.settings, RequestSettings)
        pieces = _written(library.writer(request.model), request.text, sampling)
        return StreamingResponse(pieces, media_type="application/x-ndjson")

    return router


def _scored(writer: Writer, text: str) -> dict[str, Any]:
    return {"text": writer.composed(text), "scored": writer.score(text), "unknown": writer.unknown(text)}


def _written(writer: Writer, text: str, sampling: Sample) -> Iterator[str]:
    """Yield JSON lines, several at a time: first the scored text, then the pieces that continue it."""
    yield _line(_scored(writer, text))
    batch, sent_at = "", 0.0
    for piece in writer.write(text, sampling):
        batch += _line(piece)
        if time.monotonic() - sent_at >= FLUSH_SECONDS:
            yield batch
            batch, sent_at = "", time.monotonic()
    yield batch


def _line(content: object) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


# ---- the trained models of the last run, the last commit and all experiments

NAMES = {WORKSPACE: "the last run", "HEAD": "the last commit"}
CACHED_MODELS = 4  # the playground shows two; the others stay loaded for users who switch between models


class Choice(NamedTuple):
    """A trained model that users can choose in the playground."""

    key: str  # EXPERIMENT/MODEL, or EXPERIMENT/MODEL/alone for a GPT without its n-grams
    experiment: str
    label: str
    bits: float | None  # bits per character on val, if they are known
    digest: str = ""  # of the model's folder
    is_without_ngrams: bool = False  # whether a GPT with n-grams is used without them


class Library:
    """The trained models, loaded on first use."""

    def __init__(self, compute: Compute) -> None:
        self._machine = prepare(compute)
        self._known: dict[str, Choice] = {}
        self._cached_writer = lru_cache(CACHED_MODELS)(self._load)
        self._lock = threading.Lock()

    def choices(self) -> list[Choice]:
        """Return all models whose files are available, without duplicates. BukvaError: there is none.

        The models of the last run come first, then those that were scored on the same val text, then those of other
        texts. Within these groups, the best GPT comes first.
        """
        own = map(resolve, [WORKSPACE, "HEAD"] if head() else [WORKSPACE])
        known = read_results([*own, *experiments()])
        text = next((_text(result) for result in known if result.scores), "")

        def place(result: Result) -> tuple[bool, bool, float]:
            return not result.revision.is_workspace, _text(result) != text, _bits(result, "gpt") or math.inf

        different: dict[tuple[str, bool], Choice] = {}
        for result in sorted(known, key=place):
            for choice in _choices_of(result):
                different.setdefault((choice.digest, choice.is_without_ngrams), choice)
        if not different:
            raise BukvaError(
                "There are no trained models. Run `make repro` to train them, or `dvc pull` to fetch them."
            )
        self._known = {choice.key: choice for choice in different.values()}
        return list(different.values())

    def writer(self, key: str) -> Writer:
        """Return a Writer for the model with a `key` of the last `choices`. BukvaError: it is not available."""
        if key not in self._known:
            raise BukvaError(f"Model {key} is not available. Reload the page to see the available models.")
        with self._lock:  # both columns of the page may request the same model at the same time
            return self._cached_writer(self._known[key].digest, self._known[key].is_without_ngrams)

    def _load(self, digest: str, is_without_ngrams: bool) -> Writer:
        with as_folder(cached_files(digest)) as folder:
            writer = Writer.load(folder, self._machine)
        return writer.without_ngrams() if is_without_ngrams else writer


def _text(result: Result) -> str:
    return str(result.about["text"]["val"]) if result.scores else ""


def _bits(result: Result, model: str) -> float | None:
    return result.metrics.get(model, {}).get("val")


def _choices_of(result: Result) -> Iterator[Choice]:
    name = NAMES.get(result.revision.name, result.revision.name)
    for model in reversed(trained_models().values()):  # the GPT first
        digest = outputs(result.lock).get(model.folder.as_posix(), "")
        key = f"{result.revision.name}/{model.name}"
        if files := cached_files(digest):
            yield Choice(key, name, model.label, _bits(result, model.name), digest)
            if COUNTED in files:
                yield Choice(f"{key}/alone", name, f"{model.label} without its n-grams", None, digest, True)
