"""The bigram model, which predicts the next character from the last one alone.

As in the lecture notes, the logits of every pair of characters are learned by gradient descent. Counting the pairs
(models/ngrams/counts.py) gives the exact solution. Comparing the learned table with it checks all of the training code.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from bukva.models.base import Config, LanguageModel, ModelKind, select_wanted

if TYPE_CHECKING:
    from bukva.models.attention import KVCache


@dataclass(frozen=True)
class BigramConfig(Config):
    """The shape of a bigram."""

    name: ClassVar[str] = "bigram"

    vocab_size: int
    block_size: int


class Bigram(LanguageModel):
    """The bigram table of the lecture notes. Row c holds the logits of the character after c."""

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
        """Return the (B, T, V) logits of (B, T) ids; (n, V) of the positions that are True in `wanted`, if given."""
        return self.table(select_wanted(ids, wanted))


KIND = ModelKind(BigramConfig, Bigram, sees_one_id=True)
