"""Let a GPT in the playground learn from texts by counting their n-grams (bukva.models.ngrams.adaptive).

All texts of a request are counted as one work. The n-grams of the current work are separate predictors, in addition to
the n-grams of the training split. So the texts of a request have more influence than training text of the same length.
The server keeps no state: each request contains all texts to learn from, and the counts of earlier requests are removed
first.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
import torch
from torch import Tensor

from bukva.evaluation.adaptive import mixture_inputs, readers_of
from bukva.models.attention import KVCache
from bukva.models.base import LanguageModel
from bukva.models.gpt import GPT
from bukva.models.ngrams.adaptive import Reader
from bukva.serving.writer import Scored, Writer
from bukva.text.held_out import Passage
from bukva.text.ids import Ids, bits


class Learner:
    """Create writers that have learned from the texts of a request. A writer scores and continues text.

    Args:
        writer: a writer whose model is a GPT.
        train: (N,) ids of the training split of the GPT.
    """

    def __init__(self, writer: Writer, train: Ids) -> None:
        self._writer, self._train = writer, train
        self._reader, self._lock = self._new_reader(), threading.Lock()

    @contextmanager
    def shared_writer(self, texts: Sequence[str]) -> Iterator[Writer]:
        """Provide a writer that has learned from `texts`. The writer also learns from each text that it scores.

        All calls share one set of n-gram counts, so another call waits until the `with` block of this call ends.
        Keep the block short.
        """
        with self._lock:
            yield self._learn(self._reader, texts)

    def separate_writer(self, texts: Sequence[str]) -> Writer:
        """Return a writer that has learned from `texts` and has its own n-gram counts.

        Because the counts are not shared, other requests do not wait while this writer generates a text.
        """
        return self._learn(self._new_reader(), texts)

    def _new_reader(self) -> Reader:
        [reader] = readers_of(cast("GPT", self._writer.model), self._train, 1)
        return reader

    def _learn(self, reader: Reader, texts: Sequence[str]) -> Writer:
        reader.forget()
        for text in texts:
            reader.seek(np.empty(0, np.int64))
            reader.count(self._writer.encode(text))
        return LearningWriter(self._writer, reader)


class LearningWriter(Writer):
    """A writer that mixes the predictions of a GPT with the predictions of n-gram counts. `reader` has the counts."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._gpt, self._reader = cast("GPT", writer.model), reader
        super().__init__(_Mixture(self._gpt, reader), writer.tokenizer, writer.machine)

    def score(self, text: str) -> list[Scored]:
        """Return the bits of each piece of a text. A piece is a character or a token.

        Each piece is added to the n-gram counts after it is scored.
        """
        ids = self.encode(text)
        parts = self.tokenizer.texts_of(ids)
        if len(ids) < 2:
            return super().score(text)
        self._reader.seek(ids[:0])
        self._reader.count(ids[:1])
        with self.machine.autocast():
            expert_outputs = mixture_inputs(self._gpt, Passage(0, ids, 1))
        nats = self._reader.read(ids[1:], *expert_outputs)
        return [Scored(parts[0], None), *map(Scored, parts[1:], map(bits, nats.tolist()))]


class _Mixture(LanguageModel):
    """A language model that mixes the predictions of a GPT with the predictions of n-gram counts.

    `reader` has the counts. The model generates one text at a time, and does not learn from the generated text.
    """

    def __init__(self, gpt: GPT, reader: Reader) -> None:
        super().__init__()
        self.gpt, self.config, self._reader = gpt, gpt.config, reader
        self._text = torch.empty(1, 0, dtype=torch.int64)  # (1, n), the ids before the next one

    def new_cache(self) -> KVCache:
        """Return an empty KV cache of the GPT."""
        return self.gpt.new_cache()

    def forward(self, ids: Tensor, cache: KVCache | None = None, before: Tensor | None = None) -> Tensor:
        """Return the logits of the id that follows `ids`.

        The shape of `ids` is (1, T) for T ids, and the shape of the result is (1, 1, V) for a vocabulary of V ids. The
        logits of earlier positions are left out, because generation does not need them. `cache` and `before` are as in
        GPT.forward.
        """
        has_context = cache is not None and cache.length > 0
        self._text = torch.cat([self._text if has_context or before is None else before.cpu(), ids.cpu()], dim=1)
        network, exponents = (part[-1].cpu().numpy() for part in self.gpt.expert_outputs(ids, cache, before))
        self._reader.seek(self._text[0].numpy())
        return torch.from_numpy(self._reader.log_probs(network, exponents)).float()[None, None]
