"""Rows `race` and `a100`: time to reach nanoGPT's loss on tinyshakespeare."""

import time
from pathlib import Path
from typing import Any

from bench.clone import params_with
from bench.measure import Outcome, in_turn, job
from bench.plain import nanogpt
from bench.rows import Job, Line
from bench.text import fetched
from bukva.text.collection import TEXT

ON_CPU = 1.898  # nats per character, the result of nanoGPT's recipe for a CPU (docs/dev/log.md)
ON_A100 = 1.4697  # nats per character, the result of nanoGPT's recipe for a GPU: 10.65 M parameters, three minutes
SEEDS = (11, 12, 13, 14, 15)  # not the seeds with which the recipes below were chosen
VOCAB_SIZE = 65
# changes of params.yaml, each with just enough updates to reach its target
_NGRAMS: dict[str, Any] = {"block_size": 64, "ngrams": "input"}
RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    "network": {
        "model": {"block_size": 64, "n_layer": 2, "ngrams": "none"},
        "train_gpt": {"n_steps": 180, "batch_size": 24, "learning_rate": 0.006, "warmup_steps": 10},
    },
    "ngrams": {
        "model": {**_NGRAMS, "n_layer": 1, "n_embd": 64, "ngram_orders": [3, 5]},
        "train_gpt": {"n_steps": 6, "batch_size": 24, "warmup_steps": 1},
    },
    "a100": {
        "model": {**_NGRAMS, "n_layer": 2},
        "train_gpt": {"n_steps": 150, "batch_size": 24, "warmup_steps": 10},
    },
}

# ---- jobs


def _race(recipe: str, seed: int, raw: str) -> dict[str, Any]:
    """Train, and score val once at the end. Then score val by the window rule, in time that is not counted."""
    from math import log

    from bukva.backends.device import prepare
    from bukva.config.load import parse_params
    from bukva.models.gpt import GPTConfig
    from bukva.models.registry import build
    from bukva.training.run import Task, run_training, start
    from bukva.training.state import Progress
    from bukva.training.windows import Windows

    raw_params, (train, val) = params_with(RECIPES[recipe]), load_ids(raw)
    raw_params["train_gpt"].update(seed=seed, eval_every=raw_params["train_gpt"]["n_steps"])
    values = parse_params(raw_params, "bench")
    training, shape = values.train_gpt, GPTConfig(vocab_size=VOCAB_SIZE, **values.model.model_dump())
    windows = Windows(train, shape.block_size, training.batch_size, training.order, training.seed)
    machine = prepare(values.compute)
    task = Task(lambda: build(shape), windows, lambda model, _: score(model, val), training, machine)
    state = start(task)
    state.curve.append(Progress(0, 0, 0.0, val_nats_per_char=log(VOCAB_SIZE)))  # skips the scoring before the training
    run_training(task, state)
    ended_at = time.perf_counter()
    by_rule = score(state.model, val, overlapping=True)
    return {"nats": state.best_val, "nats_by_rule": by_rule, "untimed": time.perf_counter() - ended_at}


def _race_plain(seed: int, raw: str) -> dict[str, Any]:
    """Train with nanoGPT's recipe for a CPU, including its loss estimates during the training."""
    from bench.plain.gpt import PlainTraining, Recipe, Shape

    training = PlainTraining(Shape(VOCAB_SIZE), Recipe(), *load_ids(raw), seed)
    recipe = training.recipe
    for step in range(recipe.n_steps):
        if step % recipe.eval_every == 0:
            training.estimate()
        training.update(step)
    return {"nats": training.estimate()["val"]}


def load_ids(raw: str) -> tuple[Any, Any]:
    """Return the ids of the first nine tenths of the text, and the ids of the rest."""
    from bukva.text.tokenizers.char import CharTokenizer

    text = (Path(raw) / TEXT).read_text(encoding="utf-8")
    ids = CharTokenizer.train([text]).encode(text)
    n_train = int(0.9 * len(ids))
    return ids[:n_train], ids[n_train:]


def score(model: Any, ids: Any, *, overlapping: bool = False) -> float:
    """Return the loss on (N,) ids in nats per character.

    The race uses adjacent windows; `overlapping` windows are the window rule of bukva (models/window_rule.py). In both
    cases, n-gram counts use the text before a window and the network does not.
    """
    from bukva.models.window_rule import Score, nats_of, stride_of

    stride = stride_of(model.block_size) if overlapping else model.block_size
    return Score.of(nats_of(model, ids, model.block_size, stride), len(ids) - 1).nats_per_char


JOBS: dict[str, Job] = {"race": _race, "race-plain": _race_plain}

# ---- rows


def race(scratch: Path) -> list[Line]:
    """Time the training of a GPT to the loss of nanoGPT's recipe for a CPU, against that recipe."""
    raw = _warmed(scratch)
    nano = nanogpt.prepared(raw / TEXT, scratch / "nanogpt-race")
    network, ngrams, plain = in_turn(
        len(SEEDS),
        lambda run: _ours("network", run, raw),
        lambda run: _ours("ngrams", run, raw),
        lambda run: nanogpt.recipe(nano) if nano else job("race-plain", seed=SEEDS[run], raw=raw),
    )
    what = f"train to {ON_CPU} nats per character on tinyshakespeare, whole process including scoring"
    plain_seconds, nats = [outcome.seconds for outcome in plain], max(outcome.values["nats"] for outcome in plain)
    plain_what = f"plain: {nanogpt.description(nano)}, all updates, at worst {nats:.3f} by its own estimate"
    lines = []
    for model, outcomes, required in ("GPT", network, 5.0), ("GPT with n-grams, counting included", ngrams, 15.0):
        seconds = [outcome.seconds for outcome in outcomes]
        lines += [
            Line(f"{model}: {what}; {plain_what}", "s", seconds, plain_seconds, required),
            Line("its loss", "nats", [outcome.values["nats"] for outcome in outcomes], [], ON_CPU),
        ]
    return lines


def a100(scratch: Path) -> list[Line]:
    """Time the training of a GPT with n-grams to the loss of nanoGPT on an A100."""
    raw = _warmed(scratch)
    outcomes = [_ours("a100", run, raw) for run in range(len(SEEDS))]
    what = f"GPT with n-grams: train to {ON_A100} nats per character on tinyshakespeare, the loss of nanoGPT on an A100"
    return [
        Line(what, "s", [outcome.seconds for outcome in outcomes], [], 30.0),
        Line("its loss", "nats", [outcome.values["nats"] for outcome in outcomes], [], ON_A100),
        Line("its loss by the window rule", "nats", [outcome.values["nats_by_rule"] for outcome in outcomes], []),
    ]


def _ours(recipe: str, run: int, raw: Path) -> Outcome:
    return job("race", recipe=recipe, seed=SEEDS[run], raw=raw)


def _warmed(scratch: Path) -> Path:
    """Download the text, and train once so that numba has compiled all functions; return the folder of the text."""
    raw = fetched(scratch, "tinyshakespeare")
    job("race", recipe="ngrams", seed=0, raw=raw)
    return raw
