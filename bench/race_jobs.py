"""The race, run by run: ours, the plain recipe and counting by itself, on tinyshakespeare."""

import contextlib
import time
from collections.abc import Iterator
from math import log
from typing import TYPE_CHECKING, Any

from bench.corpora import load_tinyshakespeare
from bench.figure import Curve
from bench.rows import Job
from bench.setting import VOCAB_SIZE, config, params, use_all_cores

if TYPE_CHECKING:
    from bukva.training.state import Progress, TrainState

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
    "a100": {
        "model": {**_ALL, "n_layer": 2},
        "train_gpt": {"n_steps": 850, "batch_size": 24, "warmup_steps": 10},
    },
    "budget": {
        "model": {**_ALL, "n_layer": 2},
        "train_gpt": {"n_steps": 1300, "batch_size": 24, "warmup_steps": 10},
    },
}


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
    from bukva.models.device import prepare
    from bukva.models.registry import build
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
    from bukva.models.ngrams.kneser_ney import KneserNey

    train, val = load_tinyshakespeare(raw)
    nats = KneserNey.count(train, VOCAB_SIZE, max(ORDERS)).nats_by_order(val, ORDERS)
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
    """Nats per character of all of (N,) ids: in windows side by side, the rule of this race, or by the window rule.

    Either way counts see the text before a window, too; a network does not.
    """
    from bukva.models.window_rule import Score, nats_of, stride_of

    stride = stride_of(model.block_size) if overlapping else model.block_size
    return Score.of(nats_of(model, ids, model.block_size, stride), len(ids) - 1).nats_per_char


JOBS: dict[str, Job] = {"race": _race, "race-plain": _race_plain, "count": _count}
