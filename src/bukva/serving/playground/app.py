"""The playground's part of the web application (serving/site.py): its page, and what that asks for.

GET  /play         the page
POST /play/score   the bits of each character of a text, and the likeliest next characters
POST /play/write   the characters that follow a text, one JSON object a line, each sent as it is drawn

Requests that make no sense get status 400 and {"error": a sentence}.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field, ValidationError

from bukva.config.messages import sentence
from bukva.config.schema import Sample, Section
from bukva.core.errors import BukvaError
from bukva.core.files import read_json
from bukva.project.stages import paths
from bukva.report.charts import LEVELS
from bukva.report.page.render import Links
from bukva.serving.library import Choice, Library
from bukva.serving.writer import Scored, Writer

SIDES = ("A", "B")
MOST_CHARS = 100_000  # of the text of a request, and of what a model writes then
N_LIKELIEST = 5
FLUSH_SECONDS = 0.02  # sending each character by itself takes as long as drawing it, and nobody sees the difference

Text = Annotated[str, Field(max_length=MOST_CHARS)]


class ScoreRequest(Section):
    """A model's key (library.py) and a text."""

    model: str
    text: Text


class WriteRequest(ScoreRequest):
    """The same, and keys of section sample of params.yaml with values that replace those there."""

    settings: dict[str, Any] = Field(default_factory=dict)


def add_playground(app: FastAPI, models: Callable[[], Library], sample: Sample, links: Links) -> None:
    """Add it to an application.

    Args:
        app: the application.
        models: opens the library, or finds it open.
        sample: section of params.yaml, with the settings that a request does not replace.
        links: other pages of the application.
    """
    app.mount("/static", StaticFiles(packages=[("bukva.serving.playground", "static")]))

    @app.get("/play", response_class=HTMLResponse)
    def show_page() -> str:
        return page(models().choices(), sample, links)

    @app.post("/play/score")
    def score(request: ScoreRequest) -> dict[str, Any]:
        writer = models().writer(request.model)
        text, answer = _scored(writer, request.text)
        return answer | {"likeliest": writer.likeliest(text, N_LIKELIEST)}

    @app.post("/play/write")
    def write(request: WriteRequest) -> StreamingResponse:
        settings = Sample.model_validate(sample.model_dump() | request.settings)
        if settings.n_chars > MOST_CHARS:
            raise BukvaError(f"n_chars: {settings.n_chars} is too many for a request; use {MOST_CHARS} or fewer.")
        writer = models().writer(request.model)
        text, answer = _scored(writer, request.text)
        return StreamingResponse(_lines(writer, text, answer, settings), media_type="application/x-ndjson")

    @app.exception_handler(RequestValidationError)
    async def refuse_request(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        what = first["msg"].removeprefix("Input ")
        where = ".".join(str(step) for step in first["loc"][1:]) or "the request"
        return JSONResponse({"error": f"{where}: {what}."}, status_code=400)

    @app.exception_handler(ValidationError)
    async def refuse_settings(_: Request, error: ValidationError) -> JSONResponse:
        return JSONResponse({"error": sentence(error.errors()[0], Sample)}, status_code=400)


def _scored(writer: Writer, text: str) -> tuple[str, dict[str, Any]]:
    """What of a text the model can read; and for the page its pieces with their bits, and what is left out."""
    readable = writer.readable(text)
    return readable, {"scored": list(map(_pair, writer.score(readable))), "unknown": writer.unknown(text)}


def _lines(writer: Writer, text: str, answer: dict[str, Any], settings: Sample) -> Iterator[str]:
    """What the page reads: first the text that the model continues, then each piece that it writes."""
    yield _line(answer)
    yield from _joined((_line(_pair(piece)) for piece in writer.write(text, settings)), FLUSH_SECONDS)


def _joined(lines: Iterator[str], seconds: float) -> Iterator[str]:
    """The first line at once, and then all that there are, after so many seconds each time."""
    waiting, sent_at = "", float("-inf")
    for line in lines:
        waiting += line
        if time.monotonic() - sent_at >= seconds:
            yield waiting
            waiting, sent_at = "", time.monotonic()
    if waiting:
        yield waiting


def _line(content: object) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


def _pair(piece: Scored) -> tuple[str, float | None]:
    return piece.text, None if piece.bits is None else round(piece.bits, 3)


# ---- the page of the playground


def page(choices: Sequence[Choice], sample: Sample, links: Links) -> str:
    """The page with these models to choose from, the settings of params.yaml as its first ones, and other pages."""
    environment = Environment(
        loader=PackageLoader("bukva.serving.playground"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    prompts = _prompts()
    return environment.get_template("playground.html.j2").render(
        groups=[(name, list(group)) for name, group in groupby(choices, key=lambda choice: choice.experiment)],
        chosen=dict(zip(SIDES, _first(choices), strict=True)),
        sample=sample,
        prompts=prompts,
        text=next((prompt for prompt in prompts if prompt.strip()), ""),
        levels=LEVELS,
        links=links,
        most_chars=MOST_CHARS,
    )


def _first(choices: Sequence[Choice]) -> tuple[str, str]:
    """The keys that are chosen at first: the last run beside the best other GPT, or beside its own next model."""
    others = [choice for choice in choices[1:] if (choice.model.name, choice.alone) == ("gpt", False)]
    return choices[0].key, (others or list(choices[1:]) or list(choices))[0].key


def _prompts() -> list[str]:
    """Those of the samples of the last run."""
    path = Path(paths()["answers"])
    content: dict[str, Any] = read_json(path) if path.exists() else {}
    return list(content.get("prompts", []))
