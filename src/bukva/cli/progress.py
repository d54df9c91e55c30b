"""Training callbacks that measure the speed, log metrics, show a progress bar and save lines of generated text."""

# ruff: noqa: ARG002 (callbacks do not use all of their arguments)

import dataclasses
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from bukva.backends import generation_copy
from bukva.core.progress import quantity, tqdm_bar
from bukva.generation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.text.ids import bits
from bukva.text.prompts import default_prompt
from bukva.text.tokenizers.base import Tokenizer
from bukva.tracking.journal import JournalWriter
from bukva.training.callback import Callback
from bukva.training.run import Task
from bukva.training.state import Progress, TrainState

SAMPLES = "samples.txt"
LINE_CHARS = 64
TEMPERATURE = 0.8


class Speed(Callback):
    """Measure the training speed of this process. The first update and all validations are left out."""

    def __init__(self) -> None:
        self.last: Progress | None = None
        self.last_at, self.n_chars, self.seconds = 0.0, 0, 0.0

    @property
    def chars_per_second(self) -> float | None:
        """Return the mean speed in characters per second, or None if no update has been measured yet."""
        return self.n_chars / self.seconds if self.seconds else None

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Add the characters and the time since the last update to the totals."""
        clock = time.monotonic()
        # the first update is slower, because it loads and compiles kernels
        if self.last is not None and self.last.step and progress.val_nats_per_char is None:
            self.n_chars += progress.chars_seen - self.last.chars_seen
            self.seconds += clock - self.last_at
        self.last, self.last_at = progress, clock


class MetricsLog(Callback):
    """Write the losses and the speed to the journal at each validation.

    The journal is a local file from which the metrics are sent to MLflow.

    Args:
        journal: the journal of the training stage.
        speed: callback that measures the speed. It must come before this callback in the list of callbacks.
    """

    def __init__(self, journal: JournalWriter, speed: Speed) -> None:
        self.journal, self.speed = journal, speed
        self.has_trained = False

    def on_start(self, state: TrainState) -> None:
        """Write the metrics from before the interruption to the new journal, if this training was resumed."""
        for progress in state.curve:
            self.journal.metrics(_metrics_of(progress), progress.step)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write the metrics if `val` (the validation split) was scored after this update."""
        self.has_trained = True
        if progress.val_nats_per_char is not None:
            speed = self.speed.chars_per_second
            more = {} if speed is None else {"chars_per_second": speed}
            self.journal.metrics(_metrics_of(progress) | more, progress.step)

    def on_end(self, state: TrainState) -> None:
        """If the training was already complete in the checkpoint, the journal replaces the one of that execution."""
        if not self.has_trained:
            self.journal.replace_finished()


def _metrics_of(progress: Progress) -> dict[str, float]:
    values = dataclasses.asdict(progress)
    return {name: value for name, value in values.items() if name != "step" and value is not None}


class ProgressBar(Callback):
    """Show a progress bar with the remaining time, and print a line at each validation.

    Each printed line has the losses, the speed and the newest line of generated text (from the callback `Samples`).

    Args:
        stage: name of the stage.
        n_steps: number of updates of the whole training.
        speed: callback that measures the speed. It must come before this callback in the list of callbacks.
    """

    def __init__(self, stage: str, n_steps: int, speed: Speed) -> None:
        self.stage, self.n_steps, self.speed = stage, n_steps, speed
        self.bar = tqdm_bar(stage, n_steps, "updates", scale=False)

    def on_start(self, state: TrainState) -> None:
        """Start the bar at `state.step`, which is above 0 in a resumed training."""
        self.bar.initial = self.bar.n = state.step

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Advance the bar. Print a line if `val` (the validation split) was scored after this update."""
        self.bar.update(progress.step - self.bar.n)
        val, train = progress.val_nats_per_char, progress.train_nats_per_char
        if val is not None:
            speed = self.speed.chars_per_second
            losses = f"{'' if train is None else f'train {bits(train):.3f}':11} val {bits(val):.3f} bits"
            shown_speed = [f"{quantity(speed)} chars/s"] if speed else []
            step = f"{self.stage} {progress.step:{len(str(self.n_steps))}}/{self.n_steps}"
            self._print(" | ".join([f"{step}: {losses}", *shown_speed, *state.samples[-1:]]))

    def on_end(self, state: TrainState) -> None:
        """Close the bar. Say if the training stopped early, which weights are kept, and what the losses on val are."""
        self.bar.close()
        if state.step < self.n_steps:
            self._print(
                f"{self.stage}: stopped early at step {state.step}, because val no longer improved (`patience`)"
            )
        if state.best_step < state.step:
            score = f"{bits(state.best_val):.3f} bits"
            self._print(
                f"{self.stage}: kept the weights of step {state.best_step}, which are the best on val ({score})"
            )
        self._print(f"{self.stage}: val was scored as one text; stage evaluate computes the scores of works in context")

    def _print(self, line: str) -> None:
        self.bar.write(line, file=sys.stderr)


class Samples(Callback):
    """Generate a line of text with the model at each validation, and save all lines in one file.

    Every line is sampled with the same random numbers, so that only the weights make the lines different. The random
    numbers come from a separate generator with the seed `task.recipe.seed`, so that sampling does not change the
    training.

    Args:
        task: the training job.
        tokenizer: tokenizer of the training text.
        save: function that receives the name and the whole content of the file, and replaces the file.
    """

    def __init__(self, task: Task, tokenizer: Tokenizer, save: Callable[[str, str], None]) -> None:
        self.task, self.tokenizer, self.save = task, tokenizer, save
        self.prompt = default_prompt(tokenizer)

    def on_start(self, state: TrainState) -> None:
        """Save the lines from before the interruption, if this training was resumed."""
        if state.samples:
            self._save(state)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Generate a line and save all lines, if `val` (the validation split) was scored after this update."""
        if progress.val_nats_per_char is not None:
            state.samples.append(self.line(state.model))
            self._save(state)

    def line(self, model: LanguageModel) -> str:
        """Return at most LINE_CHARS characters that the model writes after `self.prompt`. Dropout is turned off."""
        writer = generation_copy(model, self.task.machine)
        device = next(writer.parameters()).device
        ids = torch.from_numpy(self.tokenizer.encode(self.prompt).astype(np.int64))[None].to(device)  # (1, T)
        n_ids = round(LINE_CHARS / self.task.chars_per_id)
        rng = torch.Generator().manual_seed(self.task.recipe.seed)
        writer.eval()
        written = generate(writer, ids, n_ids, temperature=TEMPERATURE, top_k=0, top_p=1.0, rng=rng)  # (1, n_ids)
        model.train()
        return on_one_line(self.tokenizer.decode(written[0].cpu().numpy()))[:LINE_CHARS]

    def _save(self, state: TrainState) -> None:
        """Save a table with a row for each validation: the step, bits per character on val, and the generated line."""
        points = zip(state.curve, state.samples, strict=True)
        rows = [f"{point.step:>8}  {bits(point.val_nats_per_char or 0):11.4f}  {text}" for point, text in points]
        how = f"after {self.prompt!r} at temperature {TEMPERATURE}, with the same random numbers at each scoring"
        self.save(SAMPLES, "\n".join([f"Written {how}.", "", f"{'step':>8}  {'bits on val':>11}  text", *rows, ""]))


def on_one_line(text: str) -> str:
    """Return `text` on one line. Replace newlines by ↵ and other whitespace by spaces. Remove control characters."""
    shown = ("↵" if char == "\n" else " " if char.isspace() else char for char in text)
    return "".join(filter(str.isprintable, shown))
