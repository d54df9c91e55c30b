"""Rows of the models: the race to a given loss, training, generation and scoring beside the plain way."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from typing import Any

from bench.figure import draw_race
from bench.measure import ROOT, Outcome, alternate, job
from bench.rows import Goal, Job, Measured, Row, Side

TARGET = 1.898  # nats per character, where nanoGPT's recipe for a CPU ends (../docs/log.md)
SEEDS = (11, 12, 13, 14, 15)  # the recipe below was chosen on others
POINTS = 6  # scorings on the way, for the figure; the clock stands still for them
# What the race changes in params.yaml: fewer layers, and as many updates as it takes.
RACE: dict[str, dict[str, Any]] = {
    "model": {"n_layer": 2, "block_size": 64},
    "train_gpt": {"n_steps": 180, "batch_size": 24, "learning_rate": 0.006, "warmup_steps": 10},
}

SHAPE: dict[str, Any] = {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 256, "dropout": 0.2}
BATCH_SIZE = 64
MICRO_BATCHES = 8  # what lies between the products of eight windows stays in the cache
VOCAB_SIZE = 65
N_WRITTEN = 1000
MANY = 64

# ---- jobs


def _race(seed: int, raw: str) -> dict[str, Any]:
    from bukva.training.device import prepare
    from bukva.training.run import start, train
    from bukva.training.windows import Windows

    params, (ids_train, ids_val) = _params(RACE, seed), _tinyshakespeare(raw)
    recipe, machine = params.train_gpt, prepare(params.compute)
    state = start(_config(params.model), recipe, machine)
    T = state.model.block_size
    windows = Windows(ids_train, T, recipe.batch_size, recipe.order, recipe.seed)
    curve, clock = [], _Clock()
    # before the first update nothing is known, and scoring would tell that
    updates = train(
        state, windows, lambda: _score(state.model, ids_val) if state.step else log(VOCAB_SIZE), recipe, machine
    )
    for progress in updates:
        last = progress.step == recipe.n_steps
        if progress.step % (recipe.n_steps // POINTS) == 0 and not last:
            with clock.stopped():
                curve.append((clock.seconds, _score(state.model, ids_val)))
    curve.append((clock.seconds, state.best_val))
    return {"nats_per_char": curve[-1][1], "curve": curve, "stopped": clock.stopped_for}


def _race_plainly(seed: int, raw: str) -> dict[str, Any]:
    import torch

    from bench.plain.gpt import PlainTraining, Recipe, Shape

    torch.set_num_threads(os.cpu_count() or 1)
    train, val = _tinyshakespeare(raw)
    training = PlainTraining(Shape(VOCAB_SIZE), Recipe(), train, val, seed)
    recipe = training.recipe
    curve, clock = [], _Clock()
    for step in range(recipe.n_steps):
        if step % recipe.eval_every == 0:
            training.estimate()
            with clock.stopped():
                curve.append((clock.seconds, _score(training.model, val)))
        training.update(step)
    training.estimate()
    with clock.stopped():
        curve.append((clock.seconds, _score(training.model, val)))
    return {"nats_per_char": curve[-1][1], "curve": curve, "stopped": clock.stopped_for}


def _train(n_updates: int) -> dict[str, Any]:
    from bukva.training.device import prepare
    from bukva.training.run import start, update
    from bukva.training.windows import Windows

    changes: dict[str, dict[str, Any]] = {
        "model": SHAPE,
        "train_gpt": {"batch_size": BATCH_SIZE, "micro_batches": MICRO_BATCHES},
    }
    params = _params(changes, seed=1)
    recipe, machine = params.train_gpt, prepare(params.compute)
    state = start(_config(params.model), recipe, machine)
    state.model.train()
    windows = Windows(_random_ids(), state.model.block_size, recipe.batch_size, recipe.order, recipe.seed)
    update(state, windows.batch(1), 1e-3, recipe, machine)
    started_at = time.perf_counter()
    for step in range(2, n_updates + 2):
        update(state, windows.batch(step), 1e-3, recipe, machine)
    seconds = (time.perf_counter() - started_at) / n_updates
    return {"chars_per_second": windows.chars_per_step / seconds, "operations_per_second": _operations() / seconds}


def _train_plainly(n_updates: int) -> dict[str, Any]:
    import torch

    from bench.plain.gpt import PlainTraining, Recipe, Shape

    torch.set_num_threads(os.cpu_count() or 1)
    ids = _random_ids()
    training = PlainTraining(Shape(VOCAB_SIZE, **SHAPE), Recipe(batch_size=BATCH_SIZE), ids, ids, seed=1)
    training.update(0)
    started_at = time.perf_counter()
    for step in range(1, n_updates + 1):
        training.update(step)
    seconds = (time.perf_counter() - started_at) / n_updates
    return {"chars_per_second": BATCH_SIZE * SHAPE["block_size"] / seconds}


def _peak() -> dict[str, Any]:
    """The most operations a second that one matrix product reaches, in the type that training would take here."""
    import torch

    from bukva.training.device import prepare

    machine = prepare(_params({}, seed=1).compute)
    n, best = 4096, 0.0
    a, b = (torch.randn(n, n, device=machine.device).to(machine.dtype) for _ in "ab")
    for _ in range(12):
        started_at = time.perf_counter()
        (a @ b)[0, 0].item()  # asking for a number waits for a GPU
        best = max(best, 2 * n**3 / (time.perf_counter() - started_at))
    return {"operations_per_second": best, "dtype": str(machine.dtype).removeprefix("torch.")}


def _generate(n_sequences: int) -> dict[str, Any]:
    import torch

    from bukva.generation.sampling import generate
    from bukva.models.registry import build
    from bukva.training.device import prepare

    params = _params({"model": SHAPE}, seed=1)
    machine = prepare(params.compute)
    model, rng = build(_config(params.model)).eval(), torch.Generator().manual_seed(1)
    machine.cast_blocks(model)
    prompt = torch.zeros(n_sequences, 1, dtype=torch.int64)
    with machine.autocast():
        return _written(
            lambda n: generate(model, prompt, n, temperature=1.0, top_k=0, top_p=1.0, rng=rng), N_WRITTEN * n_sequences
        )


def _generate_plainly(n_sequences: int, n_chars: int) -> dict[str, Any]:
    import torch

    from bench.plain.gpt import PlainGPT, Shape, generate

    torch.set_num_threads(os.cpu_count() or 1)
    model = PlainGPT(Shape(VOCAB_SIZE, **SHAPE))
    # as long as the window, so that a part of the characters costs its part of the time
    prompt = torch.zeros(n_sequences, 1 if n_chars == N_WRITTEN else SHAPE["block_size"], dtype=torch.int64)
    return _written(lambda n: generate(model, prompt, min(n, n_chars)), n_chars * n_sequences)


def _scoring(raw: str) -> dict[str, Any]:
    """Scoring by the window rule beside its forward passes alone, in turn in one process."""
    import numpy as np
    import torch

    from bukva.models.registry import build
    from bukva.scoring import window_rule as scoring
    from bukva.training.device import prepare

    params, (_, val) = _params({}, seed=1), _tinyshakespeare(raw)
    prepare(params.compute)
    model = build(_config(params.model)).eval()
    T = model.block_size
    starts = np.arange(0, len(val) - 1 - T + 1, scoring.half(T))
    parts = np.array_split(starts, -(-len(starts) * T // scoring.BATCH_CHARS["cpu"]))
    batches = [torch.from_numpy(val[part[:, None] + np.arange(T)].astype(np.int64)) for part in parts]
    seconds: dict[str, list[float]] = {"scoring": [], "forward": []}
    for _ in range(5):
        started_at = time.perf_counter()
        scoring.nats_of(model, val, T, scoring.half(T))
        seconds["scoring"].append(time.perf_counter() - started_at)
        started_at = time.perf_counter()
        with torch.inference_mode():
            for batch in batches:
                model(batch)
        seconds["forward"].append(time.perf_counter() - started_at)
    return {f"{what}_chars_per_second": (len(val) - 1) / sorted(times)[2] for what, times in seconds.items()}


class _Clock:
    """Seconds since it was made, less those for which it was stopped."""

    def __init__(self) -> None:
        self.started_at, self.stopped_for = time.perf_counter(), 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started_at - self.stopped_for

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        began_at = time.perf_counter()
        yield
        self.stopped_for += time.perf_counter() - began_at


def _params(changes: dict[str, dict[str, Any]], seed: int) -> Any:
    """params.yaml with changes by section, and scorings only at the end."""
    from bukva.config.load import parse_params, read_yaml

    raw = read_yaml(ROOT / "params.yaml")
    for section, values in changes.items():
        raw[section].update(values)
    raw["train_gpt"].update(seed=seed, eval_every=raw["train_gpt"]["n_steps"])
    return parse_params(raw, "bench")


def _config(model: Any) -> Any:
    from bukva.models.gpt import GPTConfig

    return GPTConfig(vocab_size=VOCAB_SIZE, **model.model_dump())


def _tinyshakespeare(raw: str) -> tuple[Any, Any]:
    """The ids of the first nine tenths and of the rest."""
    from bukva.corpus.collection import read_table, read_texts
    from bukva.tokenizers.char import CharTokenizer

    ((_, text),) = read_texts(Path(raw), read_table(Path(raw)))
    ids = CharTokenizer.of([text]).encode(text)
    return ids[: int(0.9 * len(ids))], ids[int(0.9 * len(ids)) :]


def _score(model: Any, ids: Any) -> float:
    """Nats per character over all of ids, in windows side by side: the rule of the race alone."""
    from bukva.scoring.window_rule import Score, nats_of

    return Score.of(nats_of(model, ids, model.block_size, model.block_size)).nats_per_char


def _operations() -> float:
    """Of one update: 6 for each parameter of a matrix and character, and the causal half of attention's products."""
    L, C, T = SHAPE["n_layer"], SHAPE["n_embd"], SHAPE["block_size"]
    return BATCH_SIZE * T * (6 * (12 * L * C**2 + VOCAB_SIZE * C) + 6 * L * C * T)


def _random_ids() -> Any:
    import numpy as np

    return np.random.default_rng(1).integers(VOCAB_SIZE, size=300_000).astype(np.uint8)


def _written(write: Callable[[int], Any], n_chars: int) -> dict[str, Any]:
    """Characters per second of writing so many, after a short warm-up."""
    write(2)
    started_at = time.perf_counter()
    write(N_WRITTEN)
    return {"chars_per_second": n_chars / (time.perf_counter() - started_at)}


# ---- rows


def _text(scratch: Path) -> Path:
    """tinyshakespeare as stage download leaves it, made once in a run."""
    if not (scratch / "tinyshakespeare").exists():
        job("download", corpus="tinyshakespeare", raw=scratch / "tinyshakespeare")
    return scratch / "tinyshakespeare"


def race(scratch: Path) -> Measured:
    """Ours by five seeds, the plain recipe by one; the clock of both runs from the start of the process."""
    raw = _text(scratch)
    plain = job("race-plainly", seed=SEEDS[0], raw=raw)
    ours = [job("race", seed=seed, raw=raw) for seed in SEEDS]
    mine, other = (Side.of([_unstopped(outcome) for outcome in side]) for side in (ours, [plain]))
    nats = [outcome.values["nats_per_char"] for outcome in ours]
    curves = [outcome.values["curve"] for outcome in ours]
    draw_race(plain.values["curve"], curves, TARGET, ROOT / "reports/bench_race.png")
    return Measured(
        {"ratio": other.median / mine.median, "worst loss": max(nats)},
        mine,
        other,
        notes=(
            f"race: ours ends at {', '.join(f'{value:.4f}' for value in nats)} nats per character, "
            f"the plain recipe at {plain.values['nats_per_char']:.4f}",
        ),
        details={"nats_per_char": nats, "curves": curves, "plain_curve": plain.values["curve"]},
    )


def _unstopped(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, seconds=outcome.seconds - outcome.values["stopped"])


def training(_: Path) -> Measured:
    """Both sides twice, in turn; and our share of what the machine can multiply."""
    ours, theirs = alternate(2, lambda: job("train", n_updates=3), lambda: job("train-plainly", n_updates=1))
    peaks = [job("peak") for _ in range(2)]
    mine, other = Side.of(ours, "chars_per_second"), Side.of(theirs, "chars_per_second")
    reached, most = (
        Side.of(ours, "operations_per_second").median,
        max(peak.values["operations_per_second"] for peak in peaks),
    )
    dtype = peaks[0].values["dtype"]
    return Measured(
        {"ratio": mine.median / other.median, "share of peak": 100 * reached / most},
        mine,
        other,
        notes=(f"training: {reached / 1e9:.0f} of {most / 1e9:.0f} GFLOPS, those of one product in {dtype}",),
    )


def generation(_: Path) -> Measured:
    """One sequence of N_WRITTEN characters."""
    return _beside(job("generate", n_sequences=1), job("generate-plainly", n_sequences=1, n_chars=N_WRITTEN))


def generation_of_many(_: Path) -> Measured:
    """MANY sequences at once; the plain way for a few characters of them."""
    return _beside(job("generate", n_sequences=MANY), job("generate-plainly", n_sequences=MANY, n_chars=4))


def scoring(scratch: Path) -> Measured:
    """Scoring beside its forward passes."""
    outcome = job("scoring", raw=_text(scratch))
    mine, other = (Side.of([outcome], f"{what}_chars_per_second") for what in ("scoring", "forward"))
    return Measured({"share": 100 * mine.median / other.median}, mine, other)


def _beside(ours: Outcome, theirs: Outcome) -> Measured:
    mine, other = (Side.of([outcome], "chars_per_second") for outcome in (ours, theirs))
    return Measured({"ratio": mine.median / other.median}, mine, other)


JOBS: dict[str, Job] = {
    "race": _race,
    "race-plainly": _race_plainly,
    "train": _train,
    "train-plainly": _train_plainly,
    "peak": _peak,
    "generate": _generate,
    "generate-plainly": _generate_plainly,
    "scoring": _scoring,
}
ROWS = (
    Row(
        "race",
        f"from process start to {TARGET} nats per character on tinyshakespeare, scoring included; five seeds",
        "s",
        (Goal("ratio", "x", 5, 10), Goal("worst loss", "nats", TARGET, less_is_better=True)),
        race,
        "nanoGPT's recipe for a CPU, run to its end",
    ),
    Row(
        "training",
        "training 6 layers, 6 heads, 384 channels, block 256, batch 64, dropout 0.2",
        "chars/s",
        (Goal("ratio", "x", 3.5, 5), Goal("share of peak", "%", 35, 50)),
        training,
        "a plain loop in float32",
    ),
    Row(
        "generation",
        f"writing one sequence of {N_WRITTEN:,} characters by that model",
        "chars/s",
        (Goal("ratio", "x", 10, 25),),
        generation,
        "the window computed anew for each character",
    ),
    Row(
        f"generation-{MANY}",
        f"writing {MANY} such sequences at once",
        "chars/s",
        (Goal("ratio", "x"),),
        generation_of_many,
        "the same for them, for 4 characters",
    ),
    Row(
        "scoring",
        "scoring a whole split by the default model",
        "chars/s",
        (Goal("share", "%", 70, 90),),
        scoring,
        "forward passes of the same batches alone",
    ),
)
