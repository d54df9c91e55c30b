"""The row of the playground: what its server costs beside generation itself."""

import http.client
import json
import statistics
import threading
import time
from pathlib import Path
from typing import Any

from bench.generation import N_CHARS
from bench.measure import job
from bench.rows import Goal, Job, Measured, Row, Side
from bench.setting import MODEL, VOCAB_SIZE, config, params

N_TEXTS = 5

# ---- jobs


class _OneModel:
    """A library of one model."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def writer(self, _: str) -> Any:
        return self._writer


def _play() -> dict[str, Any]:
    """Texts over HTTP, each after one that is generated without a server; medians."""
    import uvicorn

    from bukva.core.processes import listen
    from bukva.models.device import prepare
    from bukva.models.registry import build
    from bukva.serving.app import site
    from bukva.serving.writer import Writer
    from bukva.text.tokenizers.char import CharTokenizer
    from bukva.tracking.ui import Server

    values = params({"model": MODEL, "sample": {"n_chars": N_CHARS}})
    machine = prepare(values.compute)
    alphabet = CharTokenizer([chr(ord("0") + i) for i in range(VOCAB_SIZE)])
    writer = Writer(build(config(values.model)).eval(), alphabet, machine)
    app = site(_OneModel(writer), values.sample, Server(""))  # type: ignore[arg-type]
    with listen(8050) as found:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, args=([found],), daemon=True)
        thread.start()
        port = int(found.getsockname()[1])
        texts = [(_directly(writer, values.sample), *_over_http(port)) for _ in range(1 + N_TEXTS)][1:]
        server.should_exit = True
        thread.join()
    directly, first, over_http = map(statistics.median, zip(*texts, strict=True))
    return {"chars_per_second": over_http, "directly": directly, "first_ms": first}


def _directly(writer: Any, sample: Any) -> float:
    """Characters per second of generation alone."""
    import torch

    from bukva.generation.sampling import generate

    ids, rng = torch.zeros(1, 1, dtype=torch.int64), torch.Generator().manual_seed(1)
    how = {"temperature": sample.temperature, "top_k": sample.top_k, "top_p": sample.top_p}
    started_at = time.perf_counter()
    with writer.machine.autocast():
        generate(writer.model, ids, sample.n_chars, **how, rng=rng)
    return float(sample.n_chars / (time.perf_counter() - started_at))


def _over_http(port: int) -> tuple[float, float]:
    """Milliseconds from the request to the first character, and characters per second from there to the last."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    started_at = time.perf_counter()
    connection.request(
        "POST", "/play/write", json.dumps({"model": "", "text": "0"}), {"Content-Type": "application/json"}
    )
    lines = connection.getresponse()
    lines.readline()  # the text that was sent, with its bits
    n_chars, first_at = 0, 0.0
    while lines.readline():
        n_chars += 1
        first_at = first_at or time.perf_counter()
    seconds = time.perf_counter() - first_at
    connection.close()
    return 1000 * (first_at - started_at), (n_chars - 1) / seconds


# ---- rows


def written(_: Path) -> Measured:
    """N_TEXTS texts."""
    outcome = job("play")
    ours, plain = Side.of([outcome], "chars_per_second"), Side.of([outcome], "directly")
    return Measured({"ratio": ours.median / plain.median, "first": outcome.values["first_ms"]}, ours, plain)


JOBS: dict[str, Job] = {"play": _play}
ROWS = (
    Row(
        "playground",
        f"texts of {N_CHARS:,} characters that the playground writes with that model, over HTTP",
        "chars/s",
        (Goal("ratio", "x"), Goal("first", "ms to the first character", less_is_better=True)),
        written,
        "generating them in the same process without a server",
    ),
)
