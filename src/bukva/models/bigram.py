"""The bigram model predicts the next character from the last character alone.

As in the lecture notes, the model learns a logit for each pair of characters by gradient descent. Counting the pairs
(models/ngrams/counts.py) gives the exact solution. So comparing the learned model with the counts checks all of the
training code.
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
    """The bigram table of the lecture notes. Row c contains the logits of the character that follows character c."""

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
        """Return the (B, T, V) logits for (B, T) `ids`, or only the (n, V) logits where (B, T) `wanted` is True.

        The other arguments are ignored.
        """
        return self.table(select_wanted(ids, wanted))


KIND = ModelKind(BigramConfig, Bigram, sees_one_id=True)
