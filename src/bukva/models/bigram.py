"""The bigram model predicts the next character only from the previous one.

As in the lecture notes, the model learns a logit for each pair of characters by gradient descent. The exact solution is
also known, because it can be computed from the counts of all pairs (models/ngrams/counts.py). So comparing the learned
model with the counts checks all of the training code.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from bukva.models.base import Config, LanguageModel


@dataclass(frozen=True)
class BigramConfig(Config):
    name: ClassVar[str] = "bigram"

    vocab_size: int
    block_size: int


class Bigram(LanguageModel):
    """The table of logits of the lecture notes. Row c contains the logits of the character after character c."""

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)

    def forward(self, ids: Tensor, *_: Any, wanted: Tensor | None = None, **__: Any) -> Tensor:
        """Return the (B, T, V) logits of the id after each of `ids`, or (n, V) for the n positions that are `wanted`.

        `LanguageModel` explains the other arguments, which change nothing here.
        """
        return self.table(ids if wanted is None else ids[wanted])
