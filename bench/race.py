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
SEEDS = (11, 12, 13, 14, 15)  # the recipe below was chosen with others
POINTS = 6  # scorings on the way, for the figure; the clock is stopped for them
# The changes of params.yaml: fewer layers, and just enough updates to reach the target.
RACE: dict[str, dict[str, Any]] = {
    "model": {"n_layer": 2, "block_size": 64},
    "train_gpt": {"n_steps": 180, "batch_size": 24, "learning_rate": 0.006, "warmup_steps": 10},
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


def _race(seed: int, raw: str) -> dict[str, Any]:
    from bukva.models.registry import build
    from bukva.training.device import prepare
    from bukva.training.run import Task, run_training, start
    from bukva.training.state import Progress
    from bukva.training.windows import Windows

    values, (ids_train, ids_val) = params(RACE, seed), load_tinyshakespeare(raw)
    recipe, shape = values.train_gpt, config(values.model)
    windows = Windows(ids_train, shape.block_size, recipe.batch_size, recipe.order, recipe.seed)
    machine = prepare(values.compute)
    task = Task(lambda: build(shape), windows, lambda model, _: _score(model, ids_val), recipe, machine)
    state = start(task)
    # the first scoring is left out: an untrained model scores ln V
    state.curve.append(Progress(0, 0, 0.0, val_nats_per_char=log(VOCAB_SIZE)))
    points = Points(ids_val, recipe.n_steps, Clock())
    run_training(task, state, [points])
    return {"nats_per_char": state.best_val, "curve": points.curve, "stopped": points.clock.stopped_for}


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


def _score(model: Any, ids: Any) -> float:
    """Nats per character of all of (N,) ids, in windows side by side, which is the rule of this race only."""
    from bukva.scoring.window_rule import Score, nats_of

    return Score.of(nats_of(model, ids, model.block_size, model.block_size), len(ids) - 1).nats_per_char


# ---- row


def race(scratch: Path) -> Measured:
    """Ours with five seeds, the plain recipe with one; the time of both is from the start of the process."""
    raw = fetched(scratch, "tinyshakespeare")
    plain = job("race-plain", seed=SEEDS[0], raw=raw)
    ours = [job("race", seed=seed, raw=raw) for seed in SEEDS]
    our_side, plain_side = (Side.of([_unstopped(outcome) for outcome in side]) for side in (ours, [plain]))
    nats = [outcome.values["nats_per_char"] for outcome in ours]
    curves = [outcome.values["curve"] for outcome in ours]
    draw_race(plain.values["curve"], curves, TARGET, ROOT / "reports/bench_race.png")
    return Measured(
        {"ratio": plain_side.median / our_side.median, "worst loss": max(nats)},
        our_side,
        plain_side,
        notes=(
            f"race: ours ends at {', '.join(f'{value:.4f}' for value in nats)} nats per character, "
            f"the plain recipe at {plain.values['nats_per_char']:.4f}",
        ),
        details={"nats_per_char": nats, "curves": curves, "plain_curve": plain.values["curve"]},
    )


def _unstopped(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, seconds=outcome.seconds - outcome.values["stopped"])


JOBS: dict[str, Job] = {"race": _race, "race-plain": _race_plain}
ROWS = (
    Row(
        "race",
        f"from process start to {TARGET} nats per character on tinyshakespeare, including scoring; five seeds",
        "s",
        (Goal("ratio", "x", 5, 10), Goal("worst loss", "nats", TARGET, less_is_better=True)),
        race,
        "nanoGPT's recipe for a CPU, run to its end",
    ),
)
