"""A trained model and its tokenizer: text in, text and bits out."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from bukva.base.units import bits
from bukva.config.schema import Sample
from bukva.encoding.prompts import opening
from bukva.generation.samples import prompt_generator
from bukva.generation.sampling import first_seen, generate_each
from bukva.models.base import LanguageModel
from bukva.models.folder import load_model
from bukva.scoring.window_rule import nats_of, stride_of
from bukva.tokenizers.base import MOST_BYTES, Tokenizer
from bukva.training.device import Machine

BROKEN = "\N{REPLACEMENT CHARACTER}"
FIRST_PROMPT = 1  # the playground continues a prompt as stage sample continues its first one


@dataclass(frozen=True)
class Scored:
    """A piece of text, one character unless the tokenizer joins several, and its bits; None for the first of a text."""

    text: str
    bits: float | None


class Writer:
    """Continues texts and scores them, in the precision in which stage sample writes.

    In bf16 the bits of a character differ a little from those of stage evaluate, which computes in float32: by 0.004 on
    average for the GPT of the embedded corpus, and by 0.12 at most (2,999 characters, docs/dev/log.md).
    """

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, machine: Machine) -> None:
        machine.cast_blocks(model)
        self.model, self.tokenizer, self.machine = model, tokenizer, machine

    @classmethod
    def load(cls, folder: Path, machine: Machine) -> "Writer":
        """The best weights of a model's folder.

        Raises:
            BukvaError: its files do not fit each other.
        """
        return cls(*load_model(folder, "best", machine.device), machine)

    def alone(self) -> "Writer":
        """One with what the model has learned, without what it counts."""
        return Writer(self.model.alone(), self.tokenizer, self.machine)

    def readable(self, text: str) -> str:
        """The text without characters outside the vocabulary; if nothing is left, a newline, or else the first id."""
        return "".join(filter(self.tokenizer.knows, text)) or opening(self.tokenizer)

    def unknown(self, text: str) -> list[str]:
        """The characters of a text that are outside the vocabulary, each once."""
        return [char for char in dict.fromkeys(text) if not self.tokenizer.knows(char)]

    def write(self, prompt: str, how: Sample) -> Iterator[Scored]:
        """The text that follows a readable prompt, as it is drawn; bits are those before temperature, top-k and top-p.

        The random numbers are those of stage sample for its first prompt.
        """
        ids = self._encode(prompt)[None]  # (1, T)
        rng = prompt_generator(how.seed, FIRST_PROMPT)
        drawn: list[int] = []
        nats = 0.0
        steps = generate_each(
            self.model, ids, how.n_chars, temperature=how.temperature, top_k=how.top_k, top_p=how.top_p, rng=rng
        )
        for following, logits in self._cast(steps):
            drawn.append(int(following[0]))
            nats += F.cross_entropy(logits, following).item()
            text = self.tokenizer.decode(drawn)
            if not text.endswith(BROKEN) or len(drawn) == MOST_BYTES:  # else a character that is not complete yet
                yield Scored(text, bits(nats))
                drawn, nats = [], 0.0
        if drawn:
            yield Scored(self.tokenizer.decode(drawn), bits(nats))

    def score(self, text: str) -> list[Scored]:
        """The pieces of a readable text with their bits, by the window rule."""
        ids = self.tokenizer.encode(text)
        parts = self.tokenizer.parts(ids)
        if len(ids) < 2:
            return [Scored(part, None) for part in parts]
        T = self.model.block_size
        with self.machine.autocast():
            nats = nats_of(self.model, ids, T, stride_of(T))
        return [Scored(parts[0], None), *map(Scored, parts[1:], map(bits, nats.tolist()))]

    @torch.inference_mode()
    def likeliest(self, text: str, n: int) -> list[tuple[str, float]]:
        """The n likeliest pieces after a readable text, and their probabilities."""
        ids = self._encode(text)
        window = ids[first_seen(len(ids), self.model.block_size) :]
        with self.machine.autocast():
            logits = self.model(window[None])[0, -1]  # (V,)
        found = logits.float().softmax(-1).topk(min(n, len(self.tokenizer)))
        pieces = self.tokenizer.pieces
        return [(pieces[i], p) for i, p in zip(found.indices.tolist(), found.values.tolist(), strict=True)]

    def _encode(self, text: str) -> Tensor:
        """Text -> (T,) ids on the device."""
        return torch.from_numpy(self.tokenizer.encode(text).astype(np.int64)).to(self.machine.device)

    def _cast(self, steps: Iterator[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
        """Each step in the precision of the machine; the caller's code between two steps is not affected."""
        while True:
            with self.machine.autocast():
                step = next(steps, None)
            if step is None:
                return
            yield step
