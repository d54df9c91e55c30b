"""A line that a model writes at each scoring of its training, so that one sees it learn."""

from collections.abc import Callable

import numpy as np
import torch

from bukva.generation.sampling import generate
from bukva.models.base import LanguageModel
from bukva.text.prompts import opening
from bukva.text.tokenizers.base import Tokenizer
from bukva.text.units import bits
from bukva.training.callback import Callback
from bukva.training.run import Task
from bukva.training.state import Progress, TrainState

FILE = "samples.txt"
LINE_CHARS = 64
TEMPERATURE = 0.8

Keep = Callable[[str, str], None]  # gets the name and the content of a text file


class Samples(Callback):
    """A callback that adds a line to state.samples at each scoring of val, and keeps them all as one file.

    A line is a function of the weights and of recipe.seed. The random numbers are the same for every line and are used
    for nothing else, so no weight changes.

    Args:
        task: the training.
        tokenizer: of its text.
        keep: takes the file; each time it replaces the one before.
    """

    def __init__(self, task: Task, tokenizer: Tokenizer, keep: Keep) -> None:
        self.task, self.tokenizer, self.keep = task, tokenizer, keep
        self.prompt = opening(tokenizer)

    def on_start(self, state: TrainState) -> None:
        """Keep the lines from before an interruption."""
        if state.samples:
            self.keep(FILE, self.page(state))

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Write a line if val was scored."""
        if progress.val_nats_per_char is not None:
            state.samples.append(self.line(state.model))
            self.keep(FILE, self.page(state))

    def line(self, model: LanguageModel) -> str:
        """What a model writes after the prompt, LINE_CHARS characters at most; computed in float32, without dropout."""
        ids = torch.from_numpy(self.tokenizer.encode(self.prompt).astype(np.int64))[None]  # (1, T)
        n_ids = round(LINE_CHARS / self.task.chars_per_id)
        rng = torch.Generator().manual_seed(self.task.recipe.seed)
        was_training = model.training
        model.eval()
        how = {"temperature": TEMPERATURE, "top_k": 0, "top_p": 1.0, "rng": rng}
        written = generate(model, ids.to(self.task.machine.device), n_ids, **how)  # (1, n_ids)
        model.train(was_training)
        return on_one_line(self.tokenizer.decode(written[0].cpu().numpy()))[:LINE_CHARS]

    def page(self, state: TrainState) -> str:
        """The file: what was drawn how, and a row for each scoring."""
        points = zip(state.curve, state.samples, strict=True)
        rows = [f"{point.step:>8}  {bits(point.val_nats_per_char or 0):11.4f}  {text}" for point, text in points]
        how = (
            f"Written after {self.prompt!r} at temperature {TEMPERATURE}, with the same random numbers at each scoring."
        )
        return "\n".join([how, "", f"{'step':>8}  {'bits on val':>11}  text", *rows, ""])


def on_one_line(text: str) -> str:
    """A text for a line of a terminal: line ends as ↵, other white space as spaces, no control characters."""
    shown = ("↵" if char == "\n" else " " if char.isspace() else char for char in text)
    return "".join(filter(str.isprintable, shown))
