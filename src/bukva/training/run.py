"""The training loop of bukva: `run_training`, for both models and for every study that trains.

It owns no file, no tracker and no clock. Callbacks print, log, write the curve, save checkpoints and request a stop.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from bukva.backends import attach, backend_of
from bukva.backends.base import Job
from bukva.backends.device import Machine
from bukva.backends.group import ALONE, Group
from bukva.config.schema import Training
from bukva.models.base import Config, Examples, LanguageModel
from bukva.models.registry import build
from bukva.models.window_rule import MOST_SCORED, evenly_spaced, share_of_nats, stride_of
from bukva.text.ids import Ids
from bukva.text.tokenizers.base import Tokenizer, n_first_ids, total
from bukva.training.callback import Callback
from bukva.training.optimizers import build_optimizer
from bukva.training.state import DivergedError, Progress, TrainState
from bukva.training.windows import Windows, micro_batches, prefetched

EXPLODED = 10.0  # times the first loss; detected from the train loss, because val may rise by overfitting

ScoreVal = Callable[[LanguageModel, Group], float]  # -> nats per character of val; each process computes its share


@dataclass(frozen=True)
class Task:
    """One training job: model factory, batches, validation and settings.

    build: makes the model before its first update, from torch's global generator.
    windows: the batch of each step, from train.
    score_val: nats per character of val.
    chars_per_id: mean number of characters of an id of train; 1 for characters.
    ngrams: folder that may hold the counts of train, for a model with n-grams.
    group: the processes that a launcher started; each runs the same loop with a state of its own, and all states agree.
    """

    build: Callable[[], LanguageModel]
    windows: Windows
    score_val: ScoreVal
    recipe: Training
    machine: Machine
    chars_per_id: float = 1.0
    ngrams: Path | None = None
    group: Group = ALONE

    @classmethod
    def of(
        cls,
        config: Config,
        splits: dict[str, Ids],
        tokenizer: Tokenizer,
        recipe: Training,
        machine: Machine,
        ngrams: Path | None = None,
        group: Group = ALONE,
    ) -> Self:
        """Train a model of this shape on splits["train"], scoring val, or MOST_SCORED ids of it, by the window rule."""
        windows = Windows(splits["train"], config.block_size, recipe.batch_size, recipe.order, recipe.seed)
        val = splits["val"][n_first_ids(tokenizer, splits["val"]) - 1 :]  # the first of its ids is not scored
        runs = evenly_spaced(val, MOST_SCORED)
        val_chars = sum(total(tokenizer.chars_of, run.scored) for run in runs)
        train_chars = total(tokenizer.chars_of, splits["train"])

        def score_val(model: LanguageModel, group: Group) -> float:
            T, share = model.block_size, (group.rank, group.size)
            shares = [share_of_nats(model, run.ids, T, stride_of(T), *share) for run in runs]
            return group.sum(sum(float(nats.sum(dtype=np.float64)) for nats in shares)) / val_chars

        chars_per_id = train_chars / len(splits["train"])
        return cls(lambda: build(config), windows, score_val, recipe, machine, chars_per_id, ngrams, group)

    def job(self, state: TrainState) -> Job:
        """Return the training as backends see it."""
        shape = self.windows.batch_size, self.windows.block_size
        return Job(state.model, state.optimizer, shape, self.recipe.n_steps)

    def chars_seen(self, step: int) -> int:
        """Characters learned from after `step` updates, those of later epochs again."""
        return round(step * self.windows.ids_per_step * self.chars_per_id)


def start(task: Task) -> TrainState:
    """Return the state before the first update: weights are a function of shape and seed."""
    seed_step(task.recipe.seed, 0)
    model = task.build().to(task.machine.device)
    model.count(task.windows.ids, task.ngrams)
    attach(model, task.machine)
    return TrainState(model, build_optimizer(model, task.recipe, task.machine.dtype))


def run_training(task: Task, state: TrainState, callbacks: Sequence[Callback] = ()) -> None:
    """Train from `state`, new or restored, up to recipe.n_steps, or until recipe.patience runs out.

    Val is scored before the first update, every eval_every updates and after the last; state.best_weights are those
    with the best score.

    Raises:
        DivergedError: the loss is NaN or infinite, or has exploded.
    """
    if task.group.size > 1:
        _run_loop(task, state, callbacks, task.group)
        return
    follow = functools.partial(_run_loop, task, state, ())
    with backend_of(task.machine).workers(task.job(state), follow) as group:
        _run_loop(task, state, callbacks, group)


def _run_loop(task: Task, state: TrainState, callbacks: Sequence[Callback], group: Group) -> None:
    recipe, callbacks = task.recipe, callbacks if group.leads else ()
    for callback in callbacks:
        callback.on_start(state)
    if not state.curve:
        progress = score(task, state, 0.0, group)
        for callback in callbacks:
            callback.on_update(state, progress)
    state.model.train()

    def read(step: int) -> Iterable[Examples]:
        batch = task.windows.share(step, group.rank, group.size, state.model.config.n_before)
        return micro_batches(state.model, batch, recipe.micro_batches, task.machine.device, recipe.batch_size)

    plain = functools.partial(update, state, recipe, task.machine, group)
    make_update = backend_of(task.machine).prepare_update(task.job(state), plain, group)
    for step, batch in prefetched(read, range(state.step + 1, recipe.n_steps + 1)):
        if state.stop_requested or out_of_patience(state, recipe):
            break
        rate = learning_rate(step, recipe)
        seed_step(recipe.seed, step, group.rank)
        state.optimizer.set_learning_rate(rate)
        state.sums += make_update(batch)
        state.updates += 1
        state.step = step
        if step % recipe.eval_every == 0 or step == recipe.n_steps:
            progress = score(task, state, rate, group)
        else:
            progress = Progress(step, task.chars_seen(step), rate)
        for callback in callbacks:
            callback.on_update(state, progress)
    if not state.stop_requested:
        for callback in callbacks:
            callback.on_end(state)


def update(state: TrainState, recipe: Training, machine: Machine, group: Group, batch: Iterable[Examples]) -> Tensor:
    """Make one optimizer update from the micro-batches of this process's share of a batch.

    Returns:
        (2,) of the whole batch: mean nats per id, and the norm of the gradient before it is clipped. They are float64
        on the device: reading them here makes the processor wait for a GPU.
    """
    state.optimizer.zero_grad()
    nats = torch.zeros((), device=machine.device)
    for examples in batch:
        with machine.autocast():
            losses = state.model.losses(examples.map(lambda part: part.to(machine.device, non_blocking=True)))
        share = len(examples.ids) / recipe.batch_size
        (losses.minimised * share).backward()  # adds to the gradients
        nats += losses.nats.detach() * share
    parameters = list(state.model.parameters())
    nats, norm = group.sum_gradients(parameters, nats)
    if recipe.grad_clip:
        nn.utils.clip_grads_with_norm_(parameters, recipe.grad_clip, norm)
    state.optimizer.step()
    group.barrier()
    return torch.stack([nats, norm]).double()


def score(task: Task, state: TrainState, rate: float, group: Group) -> Progress:
    """Score val, keep the weights if they are the best so far, and add a point to the curve.

    Raises:
        DivergedError: the loss is NaN or infinite, or has exploded.
    """
    val = task.score_val(state.model, group)
    train = norm = None
    if state.updates:
        nats, norm = (state.sums / state.updates).tolist()
        train = nats / task.chars_per_id
    first = state.curve[0].val_nats_per_char if state.curve else None  # about as high as the first train loss
    if not math.isfinite(val) or (train is not None and not math.isfinite(train)):
        what = f"the loss is NaN or infinite (train {train}, val {val} nats per character)"
        raise DivergedError(state.step, rate, what)
    if train and first and train > EXPLODED * first:
        raise DivergedError(state.step, rate, f"train is {train:.4g} nats per character, and was {first:.4g}")
    if val < state.best_val:
        state.best_val, state.best_step, state.best_weights = val, state.step, state.weights()
    state.sums, state.updates = torch.zeros_like(state.sums), 0
    state.curve.append(Progress(state.step, task.chars_seen(state.step), rate, train, val, state.best_val, norm))
    return state.curve[-1]


def out_of_patience(state: TrainState, recipe: Training) -> bool:
    """Whether the last recipe.patience scorings of val brought no improvement."""
    return bool(recipe.patience) and state.step - state.best_step >= recipe.patience * recipe.eval_every


# ---- what is a function of the step: its learning rate, and its randomness


def learning_rate(step: int, recipe: Training) -> float:
    """The learning rate of update `step` (counted from 1).

    It rises linearly over the first warmup_steps updates, then falls linearly to decay_to times recipe.learning_rate at
    the last one; decay_to = 1 keeps it constant. (A cosine was worse; docs/dev/log.md.)
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * step / recipe.warmup_steps
    first = max(recipe.warmup_steps, 1)  # the update with the full rate
    progress = (step - first) / max(recipe.n_steps - first, 1)
    return recipe.learning_rate * (1 - (1 - recipe.decay_to) * progress)


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's global generators, which initialisation and dropout draw from, for one step of one process.

    Randomness that is a function of these numbers needs no generator state in a checkpoint, and nothing that happens
    between two steps can disturb it.
    """
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    torch.default_generator.manual_seed(number)  # torch.manual_seed takes 0.7 ms, for devices that are not there
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(number)
