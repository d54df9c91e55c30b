"""The bigram model predicts the next character only from the previous one.

It learns a logit for each pair of characters. The exact solution can be computed from the counts of all pairs
(models/ngrams/counts.py), so comparing both checks all of the training code.
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
        """Return the (B, T, V) logits of the id after each of `ids`, or (n, V) with `wanted`."""
        return self.table(ids if wanted is None else ids[wanted])
