"""A writer that learns from what somebody types: its n-grams go on counting (bukva.models.ngrams.adaptive).

All texts of a session are one work, so that what was typed weighs more than train. Nothing is kept: each request brings
the texts from which the model is to have learned, and what it counts is taken out again afterwards.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
import torch
from torch import Tensor

from bukva.evaluation.adaptive import parts_of, readers_of
from bukva.models.attention import KVCache
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT
from bukva.models.ngrams.adaptive import Reader
from bukva.serving.writer import Scored, Writer
from bukva.text.held_out import Passage
from bukva.text.ids import Ids, bits


class Learner:
    """One model that learns from the texts of a request, and forgets them."""

    def __init__(self, writer: Writer, train: Ids) -> None:
        """Of a writer with a GPT, and the (N,) ids of its train."""
        self._writer, self._train = writer, train
        self._reader, self._lock = self._new_reader(), threading.Lock()

    @contextmanager
    def after(self, texts: Sequence[str]) -> Iterator[Writer]:
        """A writer that has learned from these texts, and learns on from each that it scores, within the block.

        Other blocks wait for its end, so it must be short.
        """
        with self._lock:
            yield self._learned(self._reader, texts)

    def apart(self, texts: Sequence[str]) -> Writer:
        """The same with counts of its own, for as long as somebody writes with it: nobody waits for the end of that."""
        return self._learned(self._new_reader(), texts)

    def _new_reader(self) -> Reader:
        [reader] = readers_of(cast("GPT", self._writer.model), self._train, 1)
        return reader

    def _learned(self, reader: Reader, texts: Sequence[str]) -> Writer:
        reader.forget()
        for text in texts:
            reader.seek(np.empty(0, np.int64))
            reader.count(self._writer.encode(text))
        return LearningWriter(self._writer, reader)


class LearningWriter(Writer):
    """A writer whose model mixes the counts of a reader."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._gpt, self._reader = cast("GPT", writer.model), reader
        super().__init__(_Learned(self._gpt, reader), writer.tokenizer, writer.machine)

    def score(self, text: str) -> list[Scored]:
        """The pieces of a text with their bits; each is learned from after its score."""
        ids = self.encode(text)
        parts = self.tokenizer.parts(ids)
        if len(ids) < 2:
            return super().score(text)
        self._reader.seek(ids[:0])
        self._reader.count(ids[:1])
        with self.machine.autocast():
            learned = parts_of(self._gpt, Passage(0, ids, 1))
        nats = self._reader.read(ids[1:], *learned)
        return [Scored(parts[0], None), *map(Scored, parts[1:], map(bits, nats.tolist()))]


class _Learned(LanguageModel):
    """The GPT mixed with what a reader has counted. It writes one text, and does not learn from what it writes."""

    def __init__(self, gpt: GPT, reader: Reader) -> None:
        super().__init__()
        self.gpt, self.config, self._reader = gpt, gpt.config, reader
        self._text = torch.empty(1, 0, dtype=torch.int64)  # before the next character, as far as it is known

    def new_cache(self) -> KVCache:
        """Return an empty cache of the GPT."""
        return self.gpt.new_cache()

    def forward(self, ids: Tensor, cache: KVCache | None = None, before: Tensor | None = None) -> Tensor:
        """(1, T) ids -> (1, 1, V) logits after the last of them; generation asks for no others."""
        goes_on = cache is not None and cache.length > 0
        self._text = torch.cat([self._text if goes_on or before is None else before.cpu(), ids.cpu()], dim=1)
        network, powers = (part[-1].cpu().numpy() for part in self.gpt.expert_outputs(ids, cache, before))
        self._reader.seek(self._text[0].numpy())
        return torch.from_numpy(self._reader.log_probs(network, powers)).float()[None, None]
