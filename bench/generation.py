"""Row `generation`: generate one text with a KV cache, and without."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.clone import params_with
from bench.measure import in_turn, job, timer
from bench.rows import Job, Line
from bench.updates import BABY

PAIRS = 3
N_CHARS = 1000
VOCAB_SIZE = 65


def _generate() -> dict[str, Any]:
    import torch

    from bukva.backends.device import generation_device, prepare
    from bukva.config.load import parse_params
    from bukva.generation.sampling import generate
    from bukva.models.gpt import GPTConfig
    from bukva.models.registry import build

    values = parse_params(params_with({"model": {**BABY["model"], "ngrams": "none"}}), "bench")
    machine = prepare(values.compute)
    model = build(GPTConfig(vocab_size=VOCAB_SIZE, **values.model.model_dump())).eval()
    model.to(device := generation_device(model, machine))
    rng = torch.Generator().manual_seed(1)
    prompt = torch.zeros(1, 1, dtype=torch.int64, device=device)
    return _timed(lambda n: generate(model, prompt, n, temperature=1.0, top_k=0, top_p=1.0, rng=rng))


def _generate_plain() -> dict[str, Any]:
    import torch

    from bench.plain.gpt import PlainGPT, Shape, generate

    model = PlainGPT(Shape(VOCAB_SIZE, **BABY["model"]))
    prompt = torch.zeros(1, 1, dtype=torch.int64)
    return _timed(lambda n: generate(model, prompt, n))


def _timed(generate: Callable[[int], Any]) -> dict[str, Any]:
    """Return the speed of generating N_CHARS characters, after a short warm-up."""
    generate(2)
    started_at = timer()
    generate(N_CHARS)
    return {"chars_per_second": N_CHARS / (timer() - started_at)}


def generation(_: Path) -> list[Line]:
    """Time text generation with a GPT of 10.7 million parameters, against recomputing the window each time."""
    what = (
        f"generate {N_CHARS:,} characters with a GPT of 10.7 million parameters; "
        "plain: recompute the whole window for each character"
    )
    outcomes = in_turn(PAIRS, lambda _: job("generate"), lambda _: job("generate-plain"))
    ours, plain = ([outcome.values["chars_per_second"] for outcome in runs] for runs in outcomes)
    return [Line(what, "chars/s", ours, plain)]


JOBS: dict[str, Job] = {"generate": _generate, "generate-plain": _generate_plain}
