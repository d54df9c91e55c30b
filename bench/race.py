"""Row of the race: how long ours and the plain recipe train to reach a loss."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.corpora import fetched, load_tinyshakespeare
from bench.figure import Curve, draw_race
from bench.measure import ROOT, Outcome, job
from bench.rows import Goal, Job, Measured, Row, Side
from bench.setting import VOCAB_SIZE, config, params, use_all_cores

if TYPE_CHECKING:
    from bukva.training.state import Progress, TrainState

TARGET = 1.898  # nats per character, the result of nanoGPT's recipe for a CPU (docs/log.md)
A100 = 1.4697  # nats per character, the result of nanoGPT's recipe for a GPU: 10.65 M parameters, three minutes
SEEDS = (11, 12, 13, 14, 15)  # the recipes below were chosen with others
POINTS = 6  # scorings on the way, for the figure; the clock is stopped for them
ORDERS = (4, 6, 8)  # of the n-grams that are scored by themselves
# The changes of params.yaml, each with just enough updates to reach its target.
_ALL: dict[str, Any] = {"block_size": 64, "ngram_dropout": 0.0, "network_loss": 0.3}
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "race": {
        "model": {**_ALL, "n_layer": 1, "n_embd": 64, "ngram_orders": [3, 5]},
        "train_gpt": {"n_steps": 6, "batch_size": 24, "warmup_steps": 1},
    },
    "network": {
        "model": {"block_size": 64, "n_layer": 2, "ngrams": "none"},
        "train_gpt": {"n_steps": 180, "batch_size": 24, "learning_rate": 0.006, "warmup_steps": 10},
    },
    "a100": {"model": _ALL, "train_gpt": {"n_steps": 500, "batch_size": 24, "warmup_steps": 10}},
    "budget": {"model": _ALL, "train_gpt": {"n_steps": 1400, "batch_size": 24, "warmup_steps": 20}},
}

# ---- jobs


class Clock:
    """Seconds since it was made, without those for which it was stopped."""

    def __init__(self) -> None:
        self.started_at, self.stopped_for = time.perf_counter(), 0.0

    @property
    def seconds(self) -> float:
        """Seconds until now."""
        return time.perf_counter() - self.started_at - self.stopped_for

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock within this block."""
        began_at = time.perf_counter()
        yield
        self.stopped_for += time.perf_counter() - began_at


class Points:
    """A callback that scores val at the start and POINTS - 1 times on the way, with the clock stopped."""

    def __init__(self, ids_val: Any, n_steps: int, clock: Clock) -> None:
        self.ids_val, self.n_steps, self.clock = ids_val, n_steps, clock
        self.curve: Curve = []

    def on_start(self, state: "TrainState") -> None:
        """Score the untrained model."""
        self._add(state)

    def on_update(self, state: "TrainState", progress: "Progress") -> None:
        """Score after every sixth of the updates but the last, which the training scores itself."""
        if progress.step % (self.n_steps // POINTS) == 0 and progress.step < self.n_steps:
            self._add(state)

    def on_end(self, state: "TrainState") -> None:
        """Add the best score of the training, whose time counts."""
        self.curve.append((self.clock.seconds, state.best_val))

    def _add(self, state: "TrainState") -> None:
        with self.clock.stopped():
            self.curve.append((self.clock.seconds, _score(state.model, self.ids_val)))


def _race(recipe: str, seed: int, raw: str) -> dict[str, Any]:
    from bukva.models.registry import build
    from bukva.training.device import prepare
    from bukva.training.run import Task, run_training, start
    from bukva.training.state import Progress
    from bukva.training.windows import Windows

    values, (ids_train, ids_val) = params(RECIPES[recipe], seed), load_tinyshakespeare(raw)
    training, shape = values.train_gpt, config(values.model)
    windows = Windows(ids_train, shape.block_size, training.batch_size, training.order, training.seed)
    machine = prepare(values.compute)
    task = Task(lambda: build(shape), windows, lambda model, _: _score(model, ids_val), training, machine)
    state = start(task)
    # the first scoring is left out
    state.curve.append(Progress(0, 0, 0.0, val_nats_per_char=log(VOCAB_SIZE)))
    points = Points(ids_val, training.n_steps, Clock())
    run_training(task, state, [points])
    with points.clock.stopped():
        by_rule = _score(state.model, ids_val, overlapping=True)
    return {
        "nats_per_char": state.best_val,
        "by_window_rule": by_rule,
        "curve": points.curve,
        "stopped": points.clock.stopped_for,
    }


def _count(raw: str) -> dict[str, Any]:
    """The n-grams by themselves: counted on train, all of val as one stream."""
    from bukva.ngrams.kneser_ney import KneserNey

    train, val = load_tinyshakespeare(raw)
    nats = KneserNey(train, VOCAB_SIZE, max(ORDERS)).nats_by_order(val, ORDERS)
    return {"nats_per_char": {order: float(found[1:].mean()) for order, found in nats.items()}}


def _race_plain(seed: int, raw: str) -> dict[str, Any]:
    from bench.plain.gpt import PlainTraining, Recipe, Shape

    use_all_cores()
    train, val = load_tinyshakespeare(raw)
    training = PlainTraining(Shape(VOCAB_SIZE), Recipe(), train, val, seed)
    recipe = training.recipe
    curve, clock = [], Clock()
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


def _score(model: Any, ids: Any, *, overlapping: bool = False) -> float:
    """Nats per character of all of (N,) ids: in windows side by side, the rule of this race, or by the window rule."""
    from bukva.scoring.window_rule import Score, nats_of, stride_of

    stride = stride_of(model.block_size) if overlapping else model.block_size
    return Score.of(nats_of(model, ids, model.block_size, stride), len(ids) - 1).nats_per_char


# ---- rows


def race(scratch: Path) -> Measured:
    """The GPT with its memory."""
    return _against_plain(scratch, "race")


def network(scratch: Path) -> Measured:
    """The GPT without a memory."""
    return _against_plain(scratch, "network")


def counting(scratch: Path) -> Measured:
    """N-grams and no network."""
    raw = fetched(scratch, "tinyshakespeare")
    job("count", raw=raw)  # numba compiles once on a machine
    outcomes = [job("count", raw=raw) for _ in SEEDS]
    side, nats = Side.of(outcomes), outcomes[0].values["nats_per_char"]
    found = ", ".join(f"{value:.4f} (order {order})" for order, value in nats.items())
    return Measured(
        {"seconds": side.median, "loss": min(nats.values())},
        side,
        notes=(f"race-counting: {found} nats per character, all orders counted and scored at once",),
        details={"nats_per_char": nats},
    )


def a100(scratch: Path) -> Measured:
    """Seconds to the loss that nanoGPT's recipe for a GPU reaches."""
    ours, _ = _ours(scratch, "a100")
    return Measured(
        {
            "seconds": Side.of(ours).median,
            "worst loss": max(outcome.values["nats_per_char"] for outcome in ours),
            "worst loss, window rule": max(outcome.values["by_window_rule"] for outcome in ours),
        },
        Side.of(ours),
        notes=(f"a100: {_losses(ours)}",),
    )


def budget(scratch: Path) -> Measured:
    """The loss after no more time than the plain recipe takes."""
    (ours, raw) = _ours(scratch, "budget")
    plain = _unstopped(job("race-plain", seed=SEEDS[0], raw=raw))
    our_side, plain_side = Side.of(ours), Side.of([plain])
    worst = max(outcome.values["nats_per_char"] for outcome in ours)
    return Measured(
        {"worst loss": worst, "share of the time": max(our_side.values) / plain_side.median},
        our_side,
        plain_side,
        notes=(f"budget: {_losses(ours)}",),
    )


def _against_plain(scratch: Path, recipe: str) -> Measured:
    """Ours with five seeds, the plain recipe with one; the time of both is from the start of the process."""
    ours, raw = _ours(scratch, recipe)
    plain = job("race-plain", seed=SEEDS[0], raw=raw)
    our_side, plain_side = Side.of(ours), Side.of([_unstopped(plain)])
    nats = [outcome.values["nats_per_char"] for outcome in ours]
    curves = [outcome.values["curve"] for outcome in ours]
    if recipe == "network":
        long = job("race", recipe="a100", seed=SEEDS[0], raw=raw).values["curve"]
        draw_race(
            {"nanoGPT's recipe, plain": plain.values["curve"], "GPT": curves[0], "GPT with n-grams": long},
            {f"n-grams of order {max(ORDERS)}": job("count", raw=raw).values["nats_per_char"][str(max(ORDERS))]},
            ROOT / "reports/bench_race.png",
        )
    return Measured(
        {"ratio": plain_side.median / our_side.median, "worst loss": max(nats)},
        our_side,
        plain_side,
        notes=(f"{recipe}: {_losses(ours)}; the plain recipe ends at {plain.values['nats_per_char']:.4f}",),
        details={"nats_per_char": nats, "curves": curves, "plain_curve": plain.values["curve"]},
    )


def _ours(scratch: Path, recipe: str) -> tuple[list[Outcome], Path]:
    """The runs of a recipe, one for each seed, and the text."""
    raw = fetched(scratch, "tinyshakespeare")
    job("count", raw=raw)  # numba compiles once on a machine
    return [_unstopped(job("race", recipe=recipe, seed=seed, raw=raw)) for seed in SEEDS], raw


def _losses(outcomes: list[Outcome]) -> str:
    side_by_side, by_rule = (
        ", ".join(f"{outcome.values[key]:.4f}" for outcome in outcomes) for key in ("nats_per_char", "by_window_rule")
    )
    return f"ours ends at {side_by_side} nats per character side by side, {by_rule} by the window rule"


def _unstopped(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, seconds=outcome.seconds - outcome.values["stopped"])


JOBS: dict[str, Job] = {"race": _race, "race-plain": _race_plain, "count": _count}
_PLAIN = "nanoGPT's recipe for a CPU, run to its end"
_TO = f"from process start to {TARGET} nats per character on tinyshakespeare, including scoring; five seeds"
ROWS = (
    Row(
        "race",
        f"{_TO}; GPT with n-grams, counting included",
        "s",
        (Goal("ratio", "x", 15, 25), Goal("worst loss", "nats", TARGET, less_is_better=True)),
        race,
        _PLAIN,
    ),
    Row(
        "race-network",
        f"{_TO}; GPT without n-grams",
        "s",
        (Goal("ratio", "x", 5, 10), Goal("worst loss", "nats", TARGET, less_is_better=True)),
        network,
        _PLAIN,
    ),
    Row(
        "race-counting",
        f"counting the n-grams of tinyshakespeare up to order {max(ORDERS)} and scoring its last tenth with them, from "
        "process start; no network",
        "s",
        (Goal("seconds", "s"), Goal("loss", "nats")),
        counting,
    ),
    Row(
        "a100",
        f"from process start to {A100} nats per character on tinyshakespeare, the result of nanoGPT on an A100; five "
        "seeds",
        "s",
        (
            Goal("seconds", "s", 40, 15, less_is_better=True),
            Goal("worst loss", "nats", A100, less_is_better=True),
            Goal("worst loss, window rule", "nats", A100, less_is_better=True),
        ),
        a100,
    ),
    Row(
        "budget",
        "loss on tinyshakespeare after no more time than nanoGPT's recipe for a CPU takes; five seeds",
        "s",
        (
            Goal("worst loss", "nats", 1.42, 1.36, less_is_better=True),
            Goal("share of the time", "x", 1, less_is_better=True),
        ),
        budget,
        _PLAIN,
    ),
)
