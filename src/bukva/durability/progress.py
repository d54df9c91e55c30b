"""Show the progress of a training: a bar, a line and a point of its curve at each validation, and generated text."""

import dataclasses
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from bukva.backends import generation_copy
from bukva.core.progress import quantity, tqdm_bar
from bukva.evaluation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.scoring.window_rule import MAX_SCORED_IDS
from bukva.text.ids import bits
from bukva.text.prompts import default_prompt
from bukva.text.tokenizers import Tokenizer
from bukva.tracking.record import SAMPLES, Recorder
from bukva.training.callback import Callback
from bukva.training.run import Task
from bukva.training.state import Progress, TrainState

LINE_CHARS = 64
TEMPERATURE = 0.8


class ProgressReport(Callback):
    """Callback that shows a progress bar. At each validation, it prints a line and records the curve so far.

    The speed leaves out the validations, and the first update, which loads and compiles kernels.
    """

    def __init__(self, stage: str, task: Task, recorder: Recorder) -> None:
        self.stage, self.n_steps, self.n_val, self.recorder = stage, task.recipe.n_steps, task.n_val, recorder
        self.points = list[dict[str, float | None]]()  # of the curve
        self.bar = tqdm_bar(stage, self.n_steps, "updates", scale=False)
        self.n_chars, self.seconds = 0, 0.0  # of the updates that were timed
        self.last: tuple[Progress, float] | None = None  # the progress after the last update, and its time

    def on_start(self, state: TrainState) -> None:
        """Show the state of a resumed training, and record its curve and its time from before the interruption."""
        if self.n_val > MAX_SCORED_IDS:
            part = f"{MAX_SCORED_IDS:,} of the {self.n_val:,} ids of val"
            print(f"{self.stage}: during training, {part} are scored. Stage evaluate scores all of them.")
        self.bar.initial = self.bar.n = state.step
        self.recorder.seconds_before = state.seconds
        self.points = [dataclasses.asdict(progress) for progress in state.curve]
        if self.points:
            self.recorder.curve(self.points)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        clock, state.seconds = time.monotonic(), self.recorder.seconds()
        if self.last is not None and self.last[0].step and progress.val_nats_per_char is None:
            self.n_chars += progress.chars_seen - self.last[0].chars_seen
            self.seconds += clock - self.last[1]
        self.last = progress, clock
        self.bar.update(progress.step - self.bar.n)
        val, train = progress.val_nats_per_char, progress.train_nats_per_char
        if val is None:
            return
        speed = self.n_chars / self.seconds if self.seconds else None
        times = {"at": time.time_ns() // 1_000_000, "chars_per_second": speed}
        self.points.append(dataclasses.asdict(progress) | times)
        self.recorder.curve(self.points)
        losses = f"{'' if train is None else f'train {bits(train):.3f}':11} val {bits(val):.3f} bits"
        parts = [f"{progress.step:{len(str(self.n_steps))}}/{self.n_steps}: {losses}"]
        parts += [f"{quantity(speed)} chars/s"] if speed else []
        self.bar.write(f"{self.stage} {' | '.join([*parts, *state.samples[-1:]])}", file=sys.stderr)

    def on_end(self, state: TrainState) -> None:
        """Close the bar. Say if the training stopped early, which weights are kept, and what the losses on val are."""
        self.bar.close()
        lines = []
        if state.step < self.n_steps:
            lines.append(f"stopped early at step {state.step}, because val no longer improved (`patience`)")
        if state.best_step < state.step:
            score = f"{bits(state.best_val):.3f} bits"
            lines.append(f"kept the weights of step {state.best_step}, which are the best on val ({score})")
        for line in (*lines, "val was scored as one text; stage evaluate computes the scores of works in context"):
            self.bar.write(f"{self.stage}: {line}", file=sys.stderr)


class Samples(Callback):
    """Callback that generates a line of text at each validation, and saves all lines in one file.

    Every line is sampled with the same random numbers, so that only the weights make the lines different. `save` gets
    the name and the whole content of the file.
    """

    def __init__(self, task: Task, tokenizer: Tokenizer, save: Callable[[str, str], None]) -> None:
        self.task, self.tokenizer, self.save = task, tokenizer, save
        self.prompt = default_prompt(tokenizer)

    def on_start(self, state: TrainState) -> None:
        if state.samples:
            self._save(state)

    def on_update(self, state: TrainState, progress: Progress) -> None:
        if progress.val_nats_per_char is not None:
            state.samples.append(self.line(state.model))
            self._save(state)

    def line(self, model: LanguageModel) -> str:
        """Return at most LINE_CHARS characters that the model writes after `self.prompt`."""
        writer = generation_copy(model, self.task.machine)
        device = next(writer.parameters()).device
        ids = torch.from_numpy(self.tokenizer.encode(self.prompt).astype(np.int64))[None].to(device)  # (1, T)
        n_ids = round(LINE_CHARS / self.task.chars_per_id)
        rng = torch.Generator().manual_seed(self.task.recipe.seed)  # its own, so that the training does not change
        writer.eval()
        written = generate(writer, ids, n_ids, temperature=TEMPERATURE, top_k=0, top_p=1.0, rng=rng)  # (1, n_ids)
        model.train()
        return on_one_line(self.tokenizer.decode(written[0].cpu().numpy()))[:LINE_CHARS]

    def _save(self, state: TrainState) -> None:
        points = zip(state.curve, state.samples, strict=True)
        rows = [f"{point.step:>8}  {bits(point.val_nats_per_char or 0):11.4f}  {text}" for point, text in points]
        how = f"after {self.prompt!r} at temperature {TEMPERATURE}, with the same random numbers at each scoring"
        self.save(SAMPLES, "\n".join([f"Written {how}.", "", f"{'step':>8}  {'bits on val':>11}  text", *rows, ""]))


def on_one_line(text: str) -> str:
    """Return `text` on one line. Replace newlines by ↵ and other whitespace by spaces. Remove control characters."""
    shown = ("↵" if char == "\n" else " " if char.isspace() else char for char in text)
    return "".join(filter(str.isprintable, shown))
