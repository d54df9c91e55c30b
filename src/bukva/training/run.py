"""The training loop, `run_training`. All stages and studies train their models with it.

The loop itself does not print, log, write files or read the clock. Callbacks do this, and can stop the training.
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
from bukva.backends.base import TrainingJob
from bukva.backends.device import Machine
from bukva.backends.group import ALONE, Group
from bukva.core.schema import TrainGPT
from bukva.models.base import Batch, Config, LanguageModel
from bukva.models.registry import build
from bukva.scoring.window_rule import MAX_SCORED_IDS, evenly_spaced, nats_of_process, stride_of
from bukva.text.ids import Ids
from bukva.text.tokenizers import Tokenizer, n_first_ids, sum_counts
from bukva.training.callback import Callback
from bukva.training.optimizers import build_optimizer
from bukva.training.state import DivergedError, Progress, TrainState
from bukva.training.windows import Windows, pinned, prefetched

# A training has diverged if its train loss exceeds this multiple of the first val loss. A large val loss does not count
# as divergence, because overfitting also makes the val loss rise.
EXPLODED = 10.0

# function that returns the val loss in nats per character; each process of the group scores a part of val
ScoreVal = Callable[[LanguageModel, Group], float]


@dataclass(frozen=True)
class Task:
    """One training job: model factory, batches, validation and settings.

    build: function that draws the initial weights from torch's global random generator.
    n_val: number of ids of the validation split.
    chars_per_id: mean number of characters that an id of the training split encodes; 1 for a character tokenizer.
    ngrams: folder that may contain saved n-gram counts of the training split. Only models with n-grams use them.
    group: the processes that train the model together. Each process runs the same loop on its own copy of the state.
    """

    build: Callable[[], LanguageModel]
    windows: Windows
    score_val: ScoreVal
    recipe: TrainGPT
    machine: Machine
    n_val: int = 0
    chars_per_id: float = 1.0
    ngrams: Path | None = None
    group: Group = ALONE

    @classmethod
    def of(
        cls,
        config: Config,
        splits: dict[str, Ids],
        tokenizer: Tokenizer,
        recipe: TrainGPT,
        machine: Machine,
        ngrams: Path | None = None,
        group: Group = ALONE,
    ) -> Self:
        """Return the task that trains a new model on `splits["train"]`, and scores it on `splits["val"]`.

        If val has more than MAX_SCORED_IDS ids, only excerpts with about MAX_SCORED_IDS ids in total are scored. The
        score is computed in the precision of the training, so it is rounded differently from that of stage evaluate.
        """
        windows = Windows(splits["train"], config.block_size, recipe.batch_size, recipe.order, recipe.seed)
        val = splits["val"][n_first_ids(tokenizer, splits["val"]) - 1 :]  # the first id is only context
        excerpts = evenly_spaced(val, MAX_SCORED_IDS)
        val_chars = sum(sum_counts(tokenizer.chars_of, excerpt.scored) for excerpt in excerpts)
        train_chars = sum_counts(tokenizer.chars_of, splits["train"])

        def score_val(model: LanguageModel, group: Group) -> float:
            T, process = model.block_size, (group.rank, group.size)
            with machine.autocast():
                shares = [nats_of_process(model, excerpt.ids, T, stride_of(T), *process) for excerpt in excerpts]
            return group.sum(sum(float(nats.sum(dtype=np.float64)) for nats in shares)) / val_chars

        chars_per_id = train_chars / len(splits["train"])
        n_val = len(splits["val"])
        return cls(lambda: build(config), windows, score_val, recipe, machine, n_val, chars_per_id, ngrams, group)

    def job(self, state: TrainState) -> TrainingJob:
        """Return the facts that a backend needs to compute this training."""
        shape = self.windows.batch_size, self.windows.block_size
        return TrainingJob(state.model, state.optimizer, shape, self.recipe.n_steps, state.numerics)

    def chars_seen(self, step: int) -> int:
        """Return the number of characters in the batches of the first `step` updates, repeated ones included."""
        return round(step * self.windows.batch_size * self.windows.block_size * self.chars_per_id)


def start(task: Task) -> TrainState:
    """Return the training state before the first update. The initial weights depend only on the config and the seed."""
    seed_step(task.recipe.seed, 0)
    model = task.build().to(task.machine.device)
    if ngrams := model.ngrams_in_training:
        ngrams.count(task.windows.ids, task.ngrams)
    attach(model, task.machine)
    return TrainState(model, build_optimizer(model, task.recipe, task.machine.dtype))


def run_training(task: Task, state: TrainState, callbacks: Sequence[Callback] = ()) -> None:
    """Train the model of `state`, which is new or restored from a checkpoint. Update `state` in place.

    The validation split is scored before the first update, every `recipe.eval_every` updates, and after the last. The
    training ends after update `recipe.n_steps`. It ends earlier if a callback requests a stop, or if the validation
    loss has not improved in the last `recipe.patience` scorings. Callbacks are called in the process of rank 0 only.

    Raises:
        DivergedError: the loss is NaN or infinite, or the train loss exceeds EXPLODED times the first val loss.
    """
    if task.group.size > 1:
        _run_loop(task, state, callbacks, task.group)
        return
    follow = functools.partial(_run_loop, task, state, ())
    with backend_of(task.machine).workers(task.job(state), follow) as group:
        _run_loop(task, state, callbacks, group)


def _run_loop(task: Task, state: TrainState, callbacks: Sequence[Callback], group: Group) -> None:
    recipe, callbacks = task.recipe, callbacks if group.is_leader else ()
    for callback in callbacks:
        callback.on_start(state)
    if not state.curve:
        progress = score(task, state, 0.0, group)
        for callback in callbacks:
            callback.on_update(state, progress)
    state.model.train()

    def read(step: int) -> Iterable[Batch]:
        ngrams = state.model.ngrams_in_training
        batch = task.windows.batch(step, group.rank, group.size, recipe.micro_batches, ngrams)
        # for a CPU, each micro-batch is prepared when it is needed: in the background, it would take a core away
        return pinned(batch) if task.machine.device.type == "cuda" else batch

    patience = recipe.patience * recipe.eval_every or math.inf  # in updates
    plain = functools.partial(update, state, recipe, task.machine, group)
    make_update = backend_of(task.machine).prepare_update(task.job(state), plain, group)
    for step, batch in prefetched(read, range(state.step + 1, recipe.n_steps + 1)):
        if state.stop_requested or step - 1 - state.best_step >= patience:
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


def update(state: TrainState, recipe: TrainGPT, machine: Machine, group: Group, batch: Iterable[Batch]) -> Tensor:
    """Update the weights once. `batch` contains the micro-batches that this process computes.

    Return a (2,) float64 tensor with the mean loss of the whole batch in nats per id, and the norm of the gradient
    before clipping. The tensor stays on the device, because reading it would make the CPU wait for the GPU.
    """
    parameters = list(state.model.parameters())
    for parameter in parameters:
        parameter.grad = None
    nats = torch.zeros((), device=machine.device)
    for part in batch:
        with machine.autocast():
            loss = state.model.loss(*(tensor.to(machine.device, non_blocking=True) for tensor in part))
        loss = loss * (len(part[0]) / recipe.batch_size)
        loss.backward()  # accumulates gradients
        nats += loss.detach()
    nats, norm = group.sum_gradients(parameters, nats)
    if recipe.grad_clip:
        nn.utils.clip_grads_with_norm_(parameters, recipe.grad_clip, norm)
    state.optimizer.step()
    group.barrier()
    return torch.stack([nats, norm]).double()


def score(task: Task, state: TrainState, rate: float, group: Group) -> Progress:
    """Score the validation split after an update with the learning rate `rate`, and return a new point of the curve."""
    val = task.score_val(state.model, group)
    train = norm = None
    if state.updates:
        nats, norm = (state.sums / state.updates).tolist()
        train = nats / task.chars_per_id
    first = state.curve[0].val_nats_per_char if state.curve else None  # close to the first train loss
    if not math.isfinite(val) or (train is not None and not math.isfinite(train)):
        what = f"the loss is NaN or infinite (train {train}, val {val} nats per character)"
        raise DivergedError(state.step, rate, what)
    if train and first and train > EXPLODED * first:
        raise DivergedError(state.step, rate, f"the train loss rose from {first:.4g} to {train:.4g} nats per character")
    if val < state.best_val:
        state.best_val, state.best_step, state.best_weights = val, state.step, state.weights()
    state.sums, state.updates = torch.zeros_like(state.sums), 0
    state.curve.append(Progress(state.step, task.chars_seen(state.step), rate, train, val, norm))
    return state.curve[-1]


# ---- learning rate and random seed of a step


def learning_rate(step: int, recipe: TrainGPT) -> float:
    """Return the learning rate of update `step`, counted from 1.

    The rate rises linearly over the first `warmup_steps` updates. Then it falls linearly to `decay_to` times
    `learning_rate` at the last update.
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * step / recipe.warmup_steps
    first = max(recipe.warmup_steps, 1)  # first update with the full rate
    progress = (step - first) / max(recipe.n_steps - first, 1)
    return recipe.learning_rate * (1 - (1 - recipe.decay_to) * progress)


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's global random generators, from which initial weights and dropout are drawn, for one step.

    So checkpoints need not store generators, and random numbers drawn between two steps do not change the training.
    """
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    torch.default_generator.manual_seed(number)  # torch.manual_seed takes 0.7 ms, because it also tries absent devices
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(number)
