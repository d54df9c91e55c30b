"""The bigram model predicts the next character only from the previous one.

As in the lecture notes, the model learns a logit for each pair of characters by gradient descent. The exact solution is
also known, because it can be computed from the counts of all pairs (models/ngrams/counts.py). So comparing the learned
model with the counts checks all of the training code.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from bukva.models.base import Config, LanguageModel, ModelKind, select_wanted

if TYPE_CHECKING:
    from bukva.models.attention import KVCache


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

    def forward(
        self,
        ids: Tensor,
        cache: "KVCache | None" = None,  # noqa: ARG002 (nothing is cached)
        before: Tensor | None = None,  # noqa: ARG002 (nothing is counted)
        following: Tensor | None = None,  # noqa: ARG002
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the logits of the id after each of `ids`. The arguments except `ids` and `wanted` are ignored.

        `ids` is (B, T), with batch and positions, and the logits are (B, T, V) for a vocabulary of V ids. With
        `wanted`, (B, T), the logits are (n, V), for the n positions where `wanted` is True.
        """
        return self.table(select_wanted(ids, wanted))


KIND = ModelKind(BigramConfig, Bigram, sees_one_id=True)
