"""The bigram: the next character from the last one alone.

The lecture notes learn the logits of every pair by gradient descent. Counting the pairs (models/ngrams/counts.py) gives
the same table exactly, so the difference between the learned and the counted table checks the whole training code.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from bukva.models.base import Config, Kind, LanguageModel, chosen

if TYPE_CHECKING:
    from bukva.models.attention import KVCache


@dataclass(frozen=True)
class BigramConfig(Config):
    """The shape of a bigram."""

    name: ClassVar[str] = "bigram"

    vocab_size: int
    block_size: int


class Bigram(LanguageModel):
    """The table of the lecture notes: row c holds the logits of what follows character c."""

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)

    def forward(
        self,
        ids: Tensor,
        cache: "KVCache | None" = None,  # noqa: ARG002 (nothing is cached)
        before: Tensor | None = None,  # noqa: ARG002 (nothing is counted)
        following: Tensor | None = None,  # noqa: ARG002
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T) ids -> (B, T, V) logits; (n, V) of the n positions that are True in (B, T) `wanted`."""
        return self.table(chosen(ids, wanted))


KIND = Kind(BigramConfig, Bigram, sees_one_id=True)
